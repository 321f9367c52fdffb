// Copies directories of this machine to all hosts before a job starts (--sync): one rsync for each host and
// directory, through the host's shell.
//
// Blocking. Deletes nothing on a host, and sends only files that have changed.
#pragma once

#include "launcher/core/settings/plan.h"
#include "launcher/io/stop_signal.h"

namespace muster::launcher {

// Returns 0, or the exit code with which the launch has to end, after it has said why in a line for each
// host. The output of rsync and host shells goes to sync.nodeN.log in the job's log directory.
int sync_hosts(const Plan& plan, const BeforeJob& setting);

}  // namespace muster::launcher
