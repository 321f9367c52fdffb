// Where a job has its logs on this host. Pure.
#pragma once

#include <functional>
#include <string>

namespace muster::agent {

struct LogPlace {
  std::string directory;
  bool shared = true;  // it is the launcher's too
};

// What decides it.
struct LogDirectories {
  std::string of_job;        // as the launcher names it
  std::string own;           // of this host; empty: it has none
  bool remote = false;       // the launcher may have made its own on another host
  bool nonce_given = false;  // the launcher has left one there
  bool nonce_seen = false;
};

// The job's directory wherever it can be used, else this host's own. `usable` makes a directory, and is asked
// only about one that may be chosen. A directory without the launcher's nonce is another one of that name.
LogPlace choose_log_place(const LogDirectories& directories,
                          const std::function<bool(const std::string& directory)>& usable);

}  // namespace muster::agent
