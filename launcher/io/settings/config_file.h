// The configuration file of --config: YAML whose keys are the long flag names, and `program`, a list of
// words. `~`, `$NAME` and `${NAME}` stand for what the environment has; in `program` a name that it does not
// have stays, for the worker may.
//
// The only place that knows yaml-cpp. Values are checked later, with those of flags and variables
// (options.h).
#pragma once

#include <string>
#include <vector>

#include "launcher/core/settings/options.h"

namespace muster::launcher {

struct ConfigFile {
  Settings settings;
  std::vector<std::string> program;
};

// Errors name the file, the line where there is one, and the key.
Expected<ConfigFile> read_config_file(const std::string& path, const Environment& environment);

}  // namespace muster::launcher
