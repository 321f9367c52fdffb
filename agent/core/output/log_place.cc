#include "agent/core/output/log_place.h"

namespace muster::agent {

LogPlace choose_log_place(const LogDirectories& directories,
                          const std::function<bool(const std::string& directory)>& usable) {
  const auto& [of_job, own, remote, nonce_given, nonce_seen] = directories;
  if (!remote || nonce_seen) return {.directory = of_job};
  const bool moves = !own.empty() && !usable(of_job) && usable(own);
  return {.directory = moves ? own : of_job, .shared = !moves && !nonce_given};
}

}  // namespace muster::agent
