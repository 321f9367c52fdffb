// The first part of every command that takes a program: reads the settings, examines the machine, makes the
// plan.
//
// Writes no file and starts nothing. Blocking.
#pragma once

#include "launcher/commands/invocation.h"
#include "launcher/core/settings/plan.h"
#include "launcher/io/settings/command_line.h"

namespace muster::launcher {

struct Prepared {
  Request request;
  Machine machine;
  Plan plan;
};
// Returns an exit code after it has printed an error, or the answer to --help or --version.
std::expected<Prepared, int> prepare(const Invocation& invocation);

// The machine as far as these options need to know it.
Machine look_at_machine(const Options& options, const Surroundings& here);
struct Planned {
  Plan plan;
  std::optional<wire::Mpi> mpi_of_program;  // the MPI in the program's file; nothing: unknown
};
// Returns the plan of make_plan(), completed with facts from the program's file.
Expected<Planned> plan_of(const Options& options, const Machine& machine, const Surroundings& here,
                          std::string job_id);

// Returns 0 if the program can be started. If not, says why and returns the exit code.
int refuse_program(const Prepared& prepared, const Invocation& invocation);
// Like the function above, for a plan that no command line describes. `program`: as the user gave it.
int refuse_program(const Plan& plan, const std::string& program, const Surroundings& here);

// The variable as the workers will have it: set by the plan, or inherited.
std::optional<std::string> variable_of(const Plan& plan, const Surroundings& here, const char* name);

}  // namespace muster::launcher
