// The first part of each command that takes a program. It reads the settings, examines the machine, and makes
// the plan.
//
// It writes no file and starts nothing. Blocking.
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
// Reads the command line, and makes the plan. If there is an error, or --help or --version is given, prints a
// text and returns an exit code.
std::expected<Prepared, int> prepare(const Invocation& invocation);

// Returns what these options need to know about the machine.
Machine look_at_machine(const Options& options, const Surroundings& here);
struct Planned {
  Plan plan;
  std::optional<wire::Mpi> mpi_of_program;  // the MPI in the program's file; nothing: unknown
};
// Makes the plan with make_plan(), adds facts from the program's file, and returns it.
Expected<Planned> plan_of(const Options& options, const Machine& machine, const Surroundings& here,
                          std::string job_id);

// Returns 0 if the program can be started. Otherwise prints why it cannot, and returns the exit code.
int refuse_program(const Prepared& prepared, const Invocation& invocation);
// Like the function above, for a plan that does not come from a command line. `program` is the program as the
// user wrote it.
int refuse_program(const Plan& plan, const std::string& program, const Surroundings& here);

// Returns the value that the variable will have in the workers. The plan sets it, or they inherit it.
std::optional<std::string> variable_of(const Plan& plan, const Surroundings& here, const char* name);

}  // namespace muster::launcher
