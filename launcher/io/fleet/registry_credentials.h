// Finds the user's credentials for an image registry where `docker login` keeps them: in config.json, or in a
// credential helper that config.json names.
#pragma once

#include <string>

#include "common/base/error.h"
#include "common/net/asio.h"

namespace muster::launcher {

// The value of the header X-Registry-Auth, which holds a secret; empty if the user has no credentials.
// `directory` contains config.json. `errors`: a file for a helper's stderr. Errors: the file or a helper is
// unusable.
awaitable<Expected<std::string>> registry_auth(std::string directory, std::string registry,
                                               std::string errors);

// DOCKER_CONFIG, or ~/.docker.
std::string docker_config_directory();

}  // namespace muster::launcher
