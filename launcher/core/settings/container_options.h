// The flags for nodes that are containers: image, mounts, limits. Pure.
#pragma once

#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

// Call when the hosts have been read.
void read_containers(SettingReader& reader, const Surroundings& here, Options& options);

// Adds `directories` (the job's working, log and checkpoint directories) to the mounts, at their own paths.
// Skips empty names and paths where --mount has mounted something.
std::vector<Mount> with_own_directories(std::vector<Mount> mounts,
                                        const std::vector<std::string>& directories);

// Errors: a path or value that a script with `docker run` (container_script.h) cannot pass on unchanged.
Status check_for_scripts(const ContainerOptions& container);

}  // namespace muster::launcher
