// Copies directories of this machine to all hosts before a job starts (--sync), by an rsync for each host and
// directory that goes through its host shell.
//
// Blocking. Nothing is deleted on a host, and files that have not changed are not sent again.
#pragma once

#include <functional>
#include <string>

#include "launcher/core/settings/plan.h"

namespace muster::launcher {

struct SyncSetting {
  int signals;  // a signalfd: the first of INT, TERM, HUP and QUIT ends it
  std::function<void(const std::string&)> say;
};

// 0, or the exit code of a launch that cannot go on; why has been said, in a line for each host. What rsync
// and host shells write goes to sync.nodeN.log of the job's log directory.
int sync_hosts(const Plan& plan, const SyncSetting& setting);

}  // namespace muster::launcher
