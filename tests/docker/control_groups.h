// The control groups of an engine's containers: one group with the same name in each hierarchy, and below it
// a group for each container. dockerd creates them; they stay when it dies.
//
// Works on group names and files only. Needs root.
#pragma once

#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace muster::docker {

// The directories of the groups with this name, in each hierarchy.
std::vector<std::filesystem::path> groups_called(const std::string& name);
// The processes in the group and in those below it, without duplicates.
std::vector<pid_t> processes_in(const std::string& name);
// Thaws frozen groups: in version 1 a frozen process does not end.
void thaw(const std::string& name);
// Removes the groups; waits until the kernel allows it. Their processes have been killed.
void remove_groups(const std::string& name);

// A group name that only this process uses.
std::string new_group_name();
// Ends and removes the groups that killed tests left. Only frozen processes can be left in them.
void remove_groups_of_the_dead();

}  // namespace muster::docker
