// Finds the user's credentials for an image registry. `docker login` keeps them in config.json, or in a
// credential helper that config.json names.
#pragma once

#include <string>

#include "common/base/error.h"
#include "common/net/asio.h"

namespace muster::launcher {

// Returns the value of the header X-Registry-Auth. It contains a secret. It is empty if the user has no
// credentials. `directory` contains config.json. That file can name a credential helper. `errors` is the path
// of a file that gets the stderr of this helper. If config.json or the helper cannot be used, returns an
// error.
awaitable<Expected<std::string>> registry_auth(std::string directory, std::string registry,
                                               std::string errors);

// DOCKER_CONFIG, or ~/.docker.
std::string docker_config_directory();

}  // namespace muster::launcher
