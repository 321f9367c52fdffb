// A real agent and the end of its workers: nothing of a job survives, whatever is killed.
#include <csignal>
#include <filesystem>

#include "tests/process/agent_process_fixture.h"
#include "tests/process/test_cgroup.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// Leaves an orphan with a session of its own.
constexpr const char* kDaemon =
    "(setsid sh -c 'trap \"\" TERM; exec sleep 1000' </dev/null >/dev/null 2>&1 &) ; ";

TEST_F(AgentProcess, KillsAWorkerThatIgnoresTerm) {
  TestLauncher launcher({});
  launcher.welcome(job("trap '' TERM; echo ready; while :; do sleep 0.05; done"));
  const auto pids = launcher.start(1);
  ASSERT_EQ(pids.size(), 1U);
  ASSERT_TRUE(launcher.wait_for<wire::Output>());
  launcher.send(wire::StopWorkers{SIGTERM, 200'000'000});
  const auto exited = launcher.wait_for<wire::WorkerExited>();
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->signal, SIGKILL);
  EXPECT_TRUE(exited->after_stop);
  EXPECT_TRUE(launcher.wait_for<wire::WorkersGone>());
}

TEST_F(AgentProcess, LeavesNothingBehindWhenItLeaves) {
  TestLauncher launcher({.environment = {mark()}});
  launcher.welcome(job(std::string(kDaemon) + "echo ready; sleep 1000"));
  ASSERT_EQ(launcher.start(2).size(), 2U);
  while (launcher.output(0, 1).empty() || launcher.output(1, 1).empty())
    ASSERT_TRUE(launcher.wait_for<wire::Output>());
  ASSERT_TRUE(eventually([this] { return processes().size() >= 4; }));
  launcher.send(wire::Leave{});
  EXPECT_EQ(launcher.agent_exit(), 0);
  EXPECT_THAT(processes(), IsEmpty());
  EXPECT_TRUE(eventually([this] { return processes_with(mark()).empty(); })) << "the guardian stays";
}

TEST_F(AgentProcess, LeavesNothingBehindWhenItIsKilled) {
  std::filesystem::create_directory(scratch_ / "run");
  TestLauncher launcher({.environment = {"TMPDIR=" + scratch_ / "run", mark()}});
  launcher.welcome(job(std::string(kDaemon) + "echo ready; sleep 1000"));
  ASSERT_EQ(launcher.start(2).size(), 2U);
  while (launcher.output(0, 1).empty() || launcher.output(1, 1).empty())
    ASSERT_TRUE(launcher.wait_for<wire::Output>());
  ASSERT_TRUE(eventually([this] { return processes().size() >= 4; }));
  kill(launcher.agent_pid(), SIGKILL);
  EXPECT_EQ(launcher.agent_exit(), 128 + SIGKILL);
  EXPECT_TRUE(eventually([this] { return processes().empty(); }, std::chrono::seconds(5)));
  EXPECT_TRUE(eventually([this] { return std::filesystem::is_empty(scratch_ / "run"); }));
  EXPECT_TRUE(eventually([this] { return processes_with(mark()).empty(); })) << "the guardian stays";
}

// The agent leaves without waiting for rank 1, before it has killed rank 0's leftovers.
TEST_F(AgentProcess, LeavesToItsGuardianWhatItLeavesBesideAWorkerThatCannotBeKilled) {
  FrozenGroup group;
  if (!group.made()) GTEST_SKIP() << "cannot make a group in a freezer hierarchy of version 1 here";
  TestLauncher launcher({.environment = {mark()}});
  launcher.welcome(job("if [ $RANK = 0 ]; then " + std::string(kDaemon) + "fi; echo ready; sleep 1000"));
  const auto pids = launcher.start(2);
  ASSERT_EQ(pids.size(), 2U);
  while (launcher.output(0, 1).empty() || launcher.output(1, 1).empty())
    ASSERT_TRUE(launcher.wait_for<wire::Output>());
  group.freeze(std::to_string(pids[1]));
  launcher.send(wire::Leave{});
  EXPECT_EQ(launcher.agent_exit(), 0);
  const auto only_the_frozen = [&] { return processes() == std::vector<pid_t>{pids[1]}; };
  EXPECT_TRUE(eventually(only_the_frozen, std::chrono::seconds(5)));
  group.thaw();
  EXPECT_TRUE(eventually([this] { return processes().empty(); }));
  EXPECT_TRUE(eventually([this] { return processes_with(mark()).empty(); })) << "the guardian stays";
}

TEST_F(AgentProcess, StopsItsWorkersWhenTheLauncherStaysAway) {
  TestLauncher launcher({});
  launcher.welcome(job(std::string(kDaemon) + "echo ready; sleep 1000"));
  const auto pids = launcher.start(1);
  ASSERT_EQ(pids.size(), 1U);
  ASSERT_TRUE(launcher.wait_for<wire::Output>());
  launcher.hang_up();
  EXPECT_TRUE(is_running(pids[0]));
  EXPECT_EQ(launcher.agent_exit(), 1);
  EXPECT_THAT(processes(), IsEmpty());
}

TEST_F(AgentProcess, ClosesTheAttemptAndLeavesWhenTheLauncherGoesBeforeTheStart) {
  TestLauncher launcher({});
  launcher.welcome(job("true"));
  launcher.prepare(1);
  ASSERT_TRUE(launcher.wait_for<wire::AttemptPrepared>());
  launcher.hang_up();
  EXPECT_EQ(launcher.agent_exit(), 1);
}

TEST_F(AgentProcess, LeavesALauncherOfAnotherVersionWithALineThatNamesTheOlderSide) {
  const std::string log = scratch_ / "agent.log";
  TestLauncher launcher({.error_file = log});
  launcher.welcome(job("true"));
  std::string ping = wire::encode(wire::FrameHeader{}, wire::ToAgent(wire::Ping{}));
  ping[4] = 1;
  launcher.send_bytes(ping);
  EXPECT_EQ(launcher.agent_exit(), 1);
  EXPECT_THAT(
      read_file(log, 1 << 20).value(),
      HasSubstr("error: the launcher is older than this agent (it speaks version 1 of the protocol, not "
                "2): install the same Muster on all nodes\n"));
}

}  // namespace
}  // namespace muster
