// What an attempt failed at before its workers ran, and what the launcher exits with for it.
//
// One rule for the local files and processes and for any other implementation of them. Plain values.
#pragma once

#include <string>

#include "common/base/error.h"
#include "common/wire/messages.h"

namespace muster::agent {

// What was tried.
enum class StartStep {
  kWorkingDirectory,  // to use the job's
  kProgram,           // to find it, or to execute it
  kScript,            // to read that which Python runs
  kResources,         // to have descriptors, pipes and processes enough
  kLogDirectory,      // to make the attempt's
  kStore,             // to listen at the port that the user chose for the store, or at any
};

struct StartFailure {
  StartStep step{};
  Error error;
};

// The script that the job's Python runs; "": none is known.
std::string script_of(const wire::JobSpec& job);

// 126 and 127 as a shell has them for a program, 2 for what the user can put right, 125 for anything else.
int exit_code_of(StartStep step, ErrorCode code, const wire::JobSpec& job);
wire::AttemptRefused refusal(const StartFailure& failure, const wire::JobSpec& job);

}  // namespace muster::agent
