// Finds the user's credentials for an image registry. `docker login` keeps them in config.json, or in a
// credential helper that config.json names.
#pragma once

#include <string>

#include "common/base/error.h"
#include "common/net/asio.h"

namespace muster::launcher {

// Returns the value of the header X-Registry-Auth. It contains a secret. It is empty if the user has no
// credentials. `directory` contains config.json. `errors` is a file for the stderr of a helper. It is an
// error if the file or a helper cannot be used.
awaitable<Expected<std::string>> registry_auth(std::string directory, std::string registry,
                                               std::string errors);

// DOCKER_CONFIG, or ~/.docker.
std::string docker_config_directory();

}  // namespace muster::launcher
