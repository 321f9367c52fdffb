// Finds the user's home directory, also if HOME is not set, as with `env -i`, in cron jobs and in containers.
#pragma once

#include <string>

namespace muster {

// Returns $HOME if it is an absolute path. Otherwise returns the directory in the user database. Returns ""
// if neither is known. This can block if the user database is on a server.
std::string home_directory();

}  // namespace muster
