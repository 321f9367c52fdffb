#include "agent/core/start/start_failure.h"

#include <gtest/gtest.h>

namespace muster::agent {
namespace {

int exit_code(StartStep step, ErrorCode code, std::int32_t master_port = 0) {
  wire::JobSpec job;
  job.master_port = master_port;
  return exit_code_of(step, code, job);
}

TEST(StartFailure, AProgramHasTheExitCodesThatAShellUses) {
  EXPECT_EQ(exit_code(StartStep::kProgram, ErrorCode::kNotFound), 127);
  EXPECT_EQ(exit_code(StartStep::kProgram, ErrorCode::kPermission), 126);
  EXPECT_EQ(exit_code(StartStep::kProgram, ErrorCode::kInternal), 125);
}

TEST(StartFailure, ADirectoryIsTheUsersMistakeIfAnotherPathWouldHelp) {
  for (const StartStep step : {StartStep::kWorkingDirectory, StartStep::kLogDirectory}) {
    for (const ErrorCode code : {ErrorCode::kNotFound, ErrorCode::kPermission, ErrorCode::kInvalidArgument})
      EXPECT_EQ(exit_code(step, code), 2);
    EXPECT_EQ(exit_code(step, ErrorCode::kUnavailable), 125);
    EXPECT_EQ(exit_code(step, ErrorCode::kInternal), 125);
  }
}

TEST(StartFailure, APortIsTheUsersMistakeIfTheUserChoseIt) {
  EXPECT_EQ(exit_code(StartStep::kStore, ErrorCode::kUnavailable, 29500), 2);
  EXPECT_EQ(exit_code(StartStep::kStore, ErrorCode::kUnavailable), 125);
}

TEST(StartFailure, ALackOfDescriptorsIsNotTheUsersMistake) {
  for (const ErrorCode code : {ErrorCode::kNotFound, ErrorCode::kPermission, ErrorCode::kInternal})
    EXPECT_EQ(exit_code(StartStep::kResources, code), 125);
}

TEST(StartFailure, ARefusalHasTheErrorsText) {
  const auto refused =
      refusal({StartStep::kProgram, Error(ErrorCode::kNotFound, "cannot find the program 'x' in PATH")}, {});
  EXPECT_EQ(refused.exit_code, 127);
  EXPECT_EQ(refused.message, "cannot find the program 'x' in PATH");
}

TEST(StartFailure, ARefusalNamesTheMissingDirectoryOrProgram) {
  wire::JobSpec job;
  job.working_directory = "/work";
  job.command = {"./train", "--lr"};
  const Error missing(ErrorCode::kNotFound, "not there");
  EXPECT_EQ(refusal({StartStep::kWorkingDirectory, missing}, job).missing, "/work");
  EXPECT_EQ(refusal({StartStep::kProgram, missing}, job).missing, "./train");
  EXPECT_EQ(refusal({StartStep::kLogDirectory, missing}, job).missing, "");
  for (const char* script : {"train.py", "below/train.py", "/work/train.py"}) {
    job.command = {"/usr/bin/python3", "-u", script, "--lr"};
    EXPECT_EQ(refusal({StartStep::kScript, missing}, job).missing,
              std::string(script) == "train.py" ? "./train.py" : script);
    EXPECT_EQ(refusal({StartStep::kScript, missing}, job).exit_code, 127);
  }
  job.command = {"./train"};
  EXPECT_EQ(refusal({StartStep::kProgram, Error(ErrorCode::kPermission, "")}, job).missing, "");
}

}  // namespace
}  // namespace muster::agent
