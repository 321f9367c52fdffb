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

// check_program.cc. python_of(): the interpreter that a script would get.
std::string python_of(const Surroundings& here);
Finding check_program_file(const Prepared& prepared, const Surroundings& here);
Finding check_torch(const Prepared& prepared, const Surroundings& here);
Finding check_gpus(const Prepared& prepared);
// For a Python program: whether py-spy, which shows its stacks, is installed.
std::optional<Finding> check_py_spy(const Prepared& prepared, const Surroundings& here);

// check_checkpoints.cc: whether every node reads the files that any node writes there; and whether this
// machine's clock agrees with the file system's.
std::vector<Finding> check_checkpoints(const Plan& plan);
// Whether another launch uses the directory; nothing if none ever has.
std::optional<Finding> check_checkpoint_use(const Options& options);

// check_hosts.cc: the whole command if the plan has hosts. Returns the exit code: 1 if something would stop a
// job.
int check_hosts(const Prepared& prepared, const Surroundings& here);

}  // namespace muster::launcher
