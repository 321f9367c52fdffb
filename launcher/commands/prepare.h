// What every command that takes a program does first: read what the user wants, look at the machine, plan.
//
// Touches nothing. Blocking.
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
// An exit code where the user was answered or refused.
std::expected<Prepared, int> prepare(const Invocation& invocation);

// The exit code of a program that cannot be started, having said why; 0 if it can.
int refuse_program(const Prepared& prepared, const Invocation& invocation);

// As the workers will have it: given for them, or inherited.
std::optional<std::string> variable_of(const Plan& plan, const Surroundings& here, const char* name);

}  // namespace muster::launcher
