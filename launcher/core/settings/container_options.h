// Reads the flags for nodes that are containers, such as image, mounts and limits. Pure.
#pragma once

#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

// Call when the hosts have been read.
void read_containers(SettingReader& reader, const Surroundings& here, Options& options);

// Adds `directories` to the mounts. These are the job's working, log and checkpoint directories. Each of them
// has the same path in the container as on the host. Skips empty names, and paths where --mount has already
// mounted something.
std::vector<Mount> with_own_directories(std::vector<Mount> mounts,
                                        const std::vector<std::string>& directories);

// A script with `docker run` (container_script.h) cannot pass on some paths and values unchanged. Returns an
// error if the options have such a path or value.
Status check_for_scripts(const ContainerOptions& container);

}  // namespace muster::launcher
