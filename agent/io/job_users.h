// The users that this job's processes run as: a rank may change its user, as an entry point with setpriv
// does.
//
// A user belongs to the job if a process of that user descends from this agent or, while it runs, from its
// parent, the launcher, which has started the other agents of this machine. Nobody else can start a process
// there. One thread.
#pragma once

#include <map>
#include <set>
#include <sys/types.h>

#include "common/base/clock.h"

namespace muster::agent {

bool is_below(pid_t pid, const std::set<pid_t>& ancestors);

class JobUsers {
 public:
  // Looks through all processes for a user that is not known yet, at most once a second for each user.
  bool has(uid_t user);

 private:
  std::set<uid_t> known_;
  std::map<uid_t, TimePoint> looked_for_;  // in vain
};

}  // namespace muster::agent
