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
  std::string of_job;        // as the launcher calls it
  std::string own;           // of this host; empty: none
  bool remote = false;       // the launcher may have made its directory on another host
  bool nonce_given = false;  // the launcher has left a nonce there
  bool nonce_seen = false;
};

// Returns the job's directory if it can be used, otherwise this host's own. `usable` makes a directory, and
// is called only for a directory that may be chosen. A directory without the launcher's nonce is a different
// one with the same name.
LogPlace choose_log_place(const LogDirectories& directories,
                          const std::function<bool(const std::string& directory)>& usable);

}  // namespace muster::agent
