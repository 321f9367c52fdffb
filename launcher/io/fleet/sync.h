// Copies directories of this machine to all hosts before a job starts (--sync), by an rsync for each host and
// directory that goes through its host shell.
//
// Blocking. Nothing is deleted on a host, and files that have not changed are not sent again.
#pragma once

#include "launcher/core/settings/plan.h"
#include "launcher/io/stop_signal.h"

namespace muster::launcher {

// 0, or the exit code of a launch that cannot go on; why has been said, in a line for each host. What rsync
// and host shells write goes to sync.nodeN.log of the job's log directory.
int sync_hosts(const Plan& plan, const BeforeJob& setting);

}  // namespace muster::launcher
