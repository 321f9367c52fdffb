// Decides where a job keeps its logs on this host. Pure.
#pragma once

#include <functional>
#include <string>

namespace muster::agent {

struct LogPlace {
  std::string directory;
  bool shared = true;  // the launcher sees the same directory
};

// The facts that decide the place.
struct LogDirectories {
  std::string of_job;        // the path that the launcher uses
  std::string own;           // this host's own; empty: none
  bool remote = false;       // the launcher may have made its directory on another host
  bool nonce_given = false;  // the launcher has left a nonce there
  bool nonce_seen = false;
};

// Returns the job's log directory, or this host's own directory. The own directory is returned only if it can
// be used and the job's directory cannot be used here. The launcher has left a nonce in the job's directory.
// If a directory of this host has the same path but lacks the nonce, it is another directory. `usable` makes
// a directory, and returns whether this has worked. It is called only for a directory that may be chosen.
LogPlace choose_log_place(const LogDirectories& directories,
                          const std::function<bool(const std::string& directory)>& usable);

}  // namespace muster::agent
