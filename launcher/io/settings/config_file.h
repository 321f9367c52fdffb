// Reads the configuration file of --config. It is YAML. Its keys are the long names of flags, and `program`,
// which is a list of words.
//
// It expands `~`, `$NAME` and `${NAME}` from the environment. It is an error if the environment has no such
// name. In `program`, such a name stays as it is, because the environment of the worker may have it. Only
// this file uses yaml-cpp. options.h checks the values later, together with those of flags and variables.
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

// Reads a configuration file. Errors name the file, the key, and the line if there is one.
Expected<ConfigFile> read_config_file(const std::string& path, const Environment& environment);

// The file of a sweep. In addition to what a configuration file can contain, it can have the flags of `launch
// sweep run`, the space of the sweep, and its constraints.
struct SweepFile {
  ConfigFile job;
  nlohmann::ordered_json space = nlohmann::ordered_json::object();  // the members `space` and `constraints`
};
Expected<SweepFile> read_sweep_file(const std::string& path, const Environment& environment);

}  // namespace muster::launcher
