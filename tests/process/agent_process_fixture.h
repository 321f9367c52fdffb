// The fixture for tests of a real agent with real workers: a job of shell scripts, its logs and its
// processes.
//
// Each test has its own scratch directory and job id; the job id finds its processes.
#pragma once

#include <gmock/gmock.h>
#include <string>
#include <vector>

#include "tests/process/agent_test_launcher.h"
#include "tests/scratch_directory.h"

namespace muster {

class AgentProcess : public testing::Test {
 protected:
  wire::JobSpec job(const std::string& script) { return shell_job(script, scratch_ / "logs"); }
  std::string log(const std::string& name) {
    return read_file(scratch_ / ("logs/attempt_1/" + name), 1 << 30).value_or("(none)");
  }
  std::vector<pid_t> processes() { return processes_with("MUSTER_JOB_ID=" + job("").job_id); }
  // An entry for an agent's environment, which finds the agent and its guardian.
  std::string mark() const { return "AGENT_TEST_MARK=" + scratch_.path().string(); }

  ScratchDirectory scratch_;
};

}  // namespace muster
