// Copies directories of this machine to all hosts before a job starts (--sync). It runs one rsync for each
// host and directory, through the shell of the host.
//
// Blocking. Deletes nothing on a host, and sends only files that have changed.
#pragma once

#include "launcher/core/settings/plan.h"
#include "launcher/io/stop_signal.h"

namespace muster::launcher {

// Copies the directories to the hosts. Returns 0 if this succeeds. Otherwise says why not, in a line for each
// host, and returns the exit code with which the launch has to end. The output of rsync and of host shells
// goes to sync.nodeN.log in the job's log directory.
int sync_hosts(const Plan& plan, const BeforeJob& setting);

}  // namespace muster::launcher
