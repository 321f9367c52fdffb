// The memory of the real launcher and agent while four workers run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/base/file.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"

namespace muster {
namespace {

// VmRSS of /proc/PID/status, in KiB; 0 if the process has ended.
long resident_kib(pid_t pid) {
  const std::string status = read_file(fmt::format("/proc/{}/status", pid), 1 << 16).value_or("");
  const std::size_t at = status.find("VmRSS:");
  return at == std::string::npos ? 0 : std::atol(status.c_str() + at + 6);
}

TEST(LaunchMemory, StaysBelow16MibInTheLauncherAndTheAgentWithFourWorkers) {
  constexpr long kLimitKib = 16 << 10;
  LaunchRun run({"--gpus-per-node", "4", "--control", "tcp", "sh", "-c", "echo ready; sleep 1000"});
  for (int rank = 0; rank < 4; ++rank) ASSERT_TRUE(run.printed(fmt::format("node0:{}: ready", rank)));
  for (const pid_t pid : {run.pid(), run.agents().at(0)}) {
    EXPECT_GT(resident_kib(pid), 0);
    EXPECT_LT(resident_kib(pid), kLimitKib) << (pid == run.pid() ? "launch" : "agent");
  }
  run.signal(SIGTERM);
  EXPECT_EQ(run.exit_code(), 143);
}

}  // namespace
}  // namespace muster
