// The flags that say what containers a job's nodes are. Pure.
#pragma once

#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

// After the hosts have been read.
void read_containers(SettingReader& reader, const Surroundings& here, Options& options);

// The directories that a job's containers see besides those of --mount, whose destinations are left out: its
// working directory, its logs, and its checkpoints if there are any.
std::vector<Mount> with_own_directories(std::vector<Mount> mounts,
                                        const std::vector<std::string>& directories);

// That what containers of other hosts get means itself in a script of `docker run` (container_script.h).
Status check_for_scripts(const ContainerOptions& container);

}  // namespace muster::launcher
