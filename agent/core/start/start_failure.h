// The failures that can occur before an attempt's workers run, and the launcher's exit code for each.
//
// The real files and processes and the simulated ones share these rules. Plain values.
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

// Returns the script that the job's Python runs. Returns "" if it is unknown.
std::string script_of(const wire::JobSpec& job);

// Returns the exit code for a failure, with the same meaning as in a shell: 126 if the program cannot be
// executed, and 127 if it is not found. Returns 2 for an error that the user can fix. Returns 125 for any
// other error.
int exit_code_of(StartStep step, ErrorCode code, const wire::JobSpec& job);
wire::AttemptRefused refusal(const StartFailure& failure, const wire::JobSpec& job);

}  // namespace muster::agent
