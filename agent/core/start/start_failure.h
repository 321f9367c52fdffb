// The failures of an attempt before its workers run, and the launcher's exit code for each.
//
// The local files and processes share these rules with the simulator's. Plain values.
#pragma once

#include <string>

#include "common/base/error.h"
#include "common/wire/messages.h"

namespace muster::agent {

// The step that failed.
enum class StartStep {
  kWorkingDirectory,  // to use the job's working directory
  kProgram,           // to find the program, or to execute it
  kScript,            // to read the script that Python runs
  kResources,         // to get enough descriptors, pipes and processes
  kLogDirectory,      // to make the attempt's log directory
  kStore,             // to listen on the store's port, whether the user chose it or not
};

struct StartFailure {
  StartStep step{};
  Error error;
};

// The script that the job's Python runs; "" if unknown.
std::string script_of(const wire::JobSpec& job);

// 126 and 127 as a shell uses them for a program, 2 for an error that the user can fix, 125 for any other.
int exit_code_of(StartStep step, ErrorCode code, const wire::JobSpec& job);
wire::AttemptRefused refusal(const StartFailure& failure, const wire::JobSpec& job);

}  // namespace muster::agent
