// A separate process finds and kills a node's leftovers on its host.
#include <csignal>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/process/agent_process_fixture.h"

namespace muster {
namespace {

using testing::HasSubstr;

class AgentSweep : public AgentProcess {
 protected:
  // An agent of this test's job.
  TestLauncher::Options agent(int incarnation) {
    const std::string count = std::to_string(incarnation);
    return {
        .environment = {mark()},
        .error_file = scratch_ / ("stderr." + count),
        .stdio = true,
        .arguments = {"--stdio", "--identity", job("").job_id + "/agent/0/" + count, "--incarnation", count}};
  }
  std::string sweep(const std::string& more) { return sweep_of(job("").job_id, more); }
  static std::string sweep_of(const std::string& job_id, const std::string& more) {
    FILE* const pipe = popen(fmt::format("{} --sweep {} {}", AGENT_PROGRAM, job_id, more).c_str(), "r");
    std::string text(64 << 10, '\0');
    text.resize(fread(text.data(), 1, text.size(), pipe));
    EXPECT_EQ(pclose(pipe), 0);
    return text;
  }
  // The agent, its workers, and a process that a worker detached.
  void start_with_detached(TestLauncher& launcher) {
    launcher.welcome(job("setsid sleep 1000 & sleep 1000"));
    ASSERT_EQ(launcher.start(1).size(), 1U);
    ASSERT_TRUE(eventually([this] { return processes().size() >= 3; }));
  }
};

TEST_F(AgentSweep, FindsNothingWhereNothingIs) {
  EXPECT_EQ(sweep("--node 0"), "swept\n");
  EXPECT_EQ(sweep("--node 0 --kill"), "swept\n");
}

TEST_F(AgentSweep, NamesWhatThereIsAndLeavesItAlone) {
  TestLauncher launcher(agent(1));
  start_with_detached(launcher);
  const auto before = processes();
  const std::string found = sweep("--node 0");
  for (const pid_t pid : before) EXPECT_THAT(found, HasSubstr(fmt::format("left {} {} 0 s", pid, getuid())));
  EXPECT_THAT(found, HasSubstr(fmt::format("left {} {} 0 muster-agent\n", launcher.agent_pid(), getuid())));
  EXPECT_THAT(found, testing::EndsWith("\nswept\n"));
  EXPECT_EQ(std::ranges::count(found, '\n'), static_cast<std::ptrdiff_t>(before.size()) + 2) << found;
  EXPECT_EQ(processes(), before);
}

TEST_F(AgentSweep, KillsTheAgentAndAllThatItStartedAndNothingOfOthers) {
  TestLauncher launcher(agent(1));
  start_with_detached(launcher);
  const std::size_t before = processes().size();
  EXPECT_EQ(sweep("--node 1 --kill"), "swept\n");
  EXPECT_EQ(sweep_of("another-job", "--node 0 --kill"), "swept\n");
  EXPECT_EQ(processes().size(), before);
  EXPECT_EQ(sweep("--node 0 --kill"), "swept\n");
  EXPECT_THAT(processes(), testing::IsEmpty());
  EXPECT_EQ(launcher.agent_exit(), 128 + SIGKILL);
  // The agent's guardian ends by itself.
  EXPECT_TRUE(eventually([this] { return processes_with(mark()).empty(); }));
}

TEST_F(AgentSweep, KillsWhatAnAgentLeftWhoseGuardianWasKilledToo) {
  TestLauncher launcher(agent(1));
  start_with_detached(launcher);
  const auto kill_guardian = [this] {
    bool killed = false;
    for (const pid_t pid : processes_with(mark())) {
      const auto name = read_file(fmt::format("/proc/{}/comm", pid), 64);
      if (name == "muster-guardian\n") killed = kill(pid, SIGKILL) == 0 || killed;
    }
    return killed;
  };
  ASSERT_TRUE(eventually(kill_guardian));
  kill(launcher.agent_pid(), SIGKILL);
  EXPECT_EQ(launcher.agent_exit(), 128 + SIGKILL);
  EXPECT_TRUE(eventually([this] { return processes().size() < 3; }));
  EXPECT_THAT(processes(), testing::Not(testing::IsEmpty()));
  EXPECT_EQ(sweep("--node 0 --kill"), "swept\n");
  EXPECT_THAT(processes(), testing::IsEmpty());
}

TEST_F(AgentSweep, KeepsALaterAgentAndWhatItStarted) {
  TestLauncher later(agent(2));
  start_with_detached(later);
  const auto its = processes();
  TestLauncher earlier(agent(1));
  start_with_detached(earlier);
  ASSERT_TRUE(eventually([&] { return processes().size() == 2 * its.size(); }));
  EXPECT_EQ(sweep("--node 0 --below 2 --kill"), "swept\n");
  EXPECT_EQ(earlier.agent_exit(), 128 + SIGKILL);
  EXPECT_EQ(processes(), its);
  EXPECT_TRUE(is_running(later.agent_pid()));
}

TEST_F(AgentSweep, IsMadeByAnAgentThatIsStartedAgainBeforeItSaysHello) {
  TestLauncher earlier(agent(1));
  start_with_detached(earlier);
  kill(earlier.agent_pid(), SIGSTOP);  // like an agent that is cut off: it does not leave by itself
  TestLauncher later(agent(2));        // the constructor receives its Hello
  EXPECT_THAT(processes(), testing::IsEmpty());
  EXPECT_EQ(earlier.agent_exit(), 128 + SIGKILL);
}

}  // namespace
}  // namespace muster
