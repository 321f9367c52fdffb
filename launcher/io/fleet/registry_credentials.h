// The user's credentials for an image registry, where `docker login` keeps them: in config.json, or in a
// credential helper that it names.
#pragma once

#include <string>

#include "common/base/error.h"
#include "common/net/asio.h"

namespace muster::launcher {

// The value of the header X-Registry-Auth, which holds a secret; empty where there are none. `directory`: of
// config.json. `errors`: a file for what a helper writes to stderr. Errors: the file or a helper is unusable.
awaitable<Expected<std::string>> registry_auth(std::string directory, std::string registry,
                                               std::string errors);

// Of the user: DOCKER_CONFIG, or ~/.docker.
std::string docker_config_directory();

}  // namespace muster::launcher
