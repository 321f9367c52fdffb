// The control groups of an engine's containers: a group of one name in each hierarchy of the kernel's, with
// one below it for each container. dockerd makes them, and nobody removes them when it dies.
//
// Names and files only; root.
#pragma once

#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace muster::docker {

// Where a group of this name lies in each hierarchy.
std::vector<std::filesystem::path> groups_called(const std::string& name);
// Processes in it and in those below it, each once.
std::vector<pid_t> processes_in(const std::string& name);
// Those that are frozen go on: in version 1 a frozen process does not end.
void thaw(const std::string& name);
// Waits until the kernel lets them go: their processes have been killed.
void remove_groups(const std::string& name);

// The name of a group that is this process's own and no other's.
std::string new_group_name();
// Ends and removes what is left of tests that were killed: only what was frozen can be.
void remove_groups_of_the_dead();

}  // namespace muster::docker
