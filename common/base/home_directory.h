// The user's home directory, also where the environment does not say it: `env -i`, cron jobs, containers.
#pragma once

#include <string>

namespace muster {

// $HOME if that is an absolute path, else what the user database says; empty if neither is known. If the user
// database is on a server in the network, this asks that server.
std::string home_directory();

}  // namespace muster
