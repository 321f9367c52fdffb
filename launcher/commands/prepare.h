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

// Returns 0 if the program can be started. If not, says why and returns the exit code.
int refuse_program(const Prepared& prepared, const Invocation& invocation);

// The variable as the workers will have it: set by the plan, or inherited.
std::optional<std::string> variable_of(const Plan& plan, const Surroundings& here, const char* name);

}  // namespace muster::launcher
