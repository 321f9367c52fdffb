// The checks that `launch check` makes on this machine, one function each.
//
// They remove every file that they write. Blocking; each wait has a limit.
#pragma once

#include <vector>

#include "launcher/commands/prepare.h"
#include "launcher/core/verdict/findings.h"

namespace muster::launcher {

Demand demand_of(const Plan& plan);

// check_machine.cc
Finding check_agent();
Finding check_loopback();
Finding check_hostname(const Surroundings& here);
Finding check_descriptors(const Demand& demand);
Finding check_processes(const Demand& demand);
Finding check_shared_memory(const Demand& demand);
Finding check_disk(std::string name, const std::string& directory, std::uint64_t wanted_bytes);

// The next five functions are in check_program.cc. python_of() returns the interpreter that a script would
// get.
std::string python_of(const Surroundings& here);
Finding check_program_file(const Prepared& prepared, const Surroundings& here);
Finding check_torch(const Prepared& prepared, const Surroundings& here);
Finding check_gpus(const Prepared& prepared);
// If the program is a Python program, checks whether py-spy is installed. py-spy shows the stacks of such a
// program.
std::optional<Finding> check_py_spy(const Prepared& prepared, const Surroundings& here);

// These are in check_checkpoints.cc. check_checkpoints() checks whether each node can read what the others
// write to the checkpoint directory, and whether this machine's clock agrees with the file system's.
std::vector<Finding> check_checkpoints(const Plan& plan);
// Returns whether another launch uses the checkpoint directory. Returns nothing if no launch has ever used
// it.
std::optional<Finding> check_checkpoint_use(const Options& options);

// This is in check_hosts.cc. If the plan has hosts, this function does all of `launch check`. Returns the
// exit code, which is 1 if something would stop a job.
int check_hosts(const Prepared& prepared, const Surroundings& here);

}  // namespace muster::launcher
