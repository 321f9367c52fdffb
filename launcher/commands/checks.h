// The looks that `launch check` takes at this machine, a function each.
//
// They read, and write only what they remove again. Blocking; each wait has a limit.
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

// check_program.cc: the interpreter that a script would get, the program, the torch that it would use, the
// GPUs.
std::string python_of(const Surroundings& here);
Finding check_program_file(const Prepared& prepared, const Surroundings& here);
Finding check_torch(const Prepared& prepared, const Surroundings& here);
Finding check_gpus(const Prepared& prepared);
// Of a program that Python runs: what would show its stacks.
std::optional<Finding> check_py_spy(const Prepared& prepared, const Surroundings& here);

// check_checkpoints.cc: whether what one node's process writes there is read by every other's; and the clock,
// compared with that of its file system.
std::vector<Finding> check_checkpoints(const Plan& plan);
// Whether another launch uses it; nothing if none has.
std::optional<Finding> check_checkpoint_use(const Options& options);

// check_hosts.cc: the whole command, where the plan has hosts. Its exit code: 1 if something would stop a
// job.
int check_hosts(const Prepared& prepared, const Surroundings& here);

}  // namespace muster::launcher
