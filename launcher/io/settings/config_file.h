// The configuration file of --config: YAML with the long flag names as keys, and `program`, a list of words.
//
// Expands `~`, `$NAME` and `${NAME}` from the environment. An unset name is an error, but stays as it is in
// `program`, since the worker's environment may have it. Only this file uses yaml-cpp. options.h checks the
// values later, together with those of flags and variables.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/core/settings/options.h"

namespace muster::launcher {

struct ConfigFile {
  Settings settings;
  std::vector<std::string> program;
};

// Errors name the file, the line if there is one, and the key.
Expected<ConfigFile> read_config_file(const std::string& path, const Environment& environment);

// The file of a sweep. It can also have the flags of `launch sweep run`, and the sweep's space and
// constraints.
struct SweepFile {
  ConfigFile job;
  nlohmann::ordered_json space = nlohmann::ordered_json::object();  // the members `space` and `constraints`
};
Expected<SweepFile> read_sweep_file(const std::string& path, const Environment& environment);

}  // namespace muster::launcher
