// A real agent in a real memory cgroup, where the kernel kills workers for lack of memory.
#include <csignal>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/process/agent_process_fixture.h"
#include "tests/process/test_cgroup.h"

namespace muster {
namespace {

constexpr std::int64_t kLimitBytes = 256 << 20;  // an agent with sanitizers needs much of it

// Rank 1 allocates 1 GiB on a signal file.
std::string eater(const std::string& go) {
  return "while ! [ -e " + go +
         " ]; do sleep 0.01; done; if [ $RANK = 1 ]; then exec python3 -c \"x = b'x' * (1 << 30)\"; fi; "
         "sleep 1000";
}

class AgentMemory : public AgentProcess {
 protected:
  void limit(const TestCgroup& group) const {
    const auto [file, value] = hierarchy.memory_limit(kLimitBytes);
    group.write(file, value);
  }
  void expect_evidence(TestLauncher& launcher) {
    const auto exited = launcher.wait_for<wire::WorkerExited>();
    ASSERT_TRUE(exited);
    EXPECT_EQ(exited->rank, Rank(1));
    EXPECT_EQ(exited->signal, SIGKILL);
    EXPECT_EQ(exited->oom_kill_count, 1);
    EXPECT_EQ(exited->memory_limit_bytes, kLimitBytes);
    EXPECT_GT(exited->peak_memory_bytes, kLimitBytes / 2);
    EXPECT_LE(exited->peak_memory_bytes, 2 * kLimitBytes);
  }

  const CgroupHierarchy hierarchy = cgroup_hierarchy("memory").value_or(CgroupHierarchy{"/nowhere", false});
};

TEST_F(AgentMemory, SaysThatTheKernelKilledAWorkerInTheAgentsOwnGroup) {
  const TestCgroup group(hierarchy, "memory");
  if (!group.made()) GTEST_SKIP() << "cannot make a memory cgroup here";
  limit(group);
  TestLauncher launcher({.in_child = [&] { group.write("cgroup.procs", "0"); }});
  launcher.welcome(job(eater(scratch_ / "go")));
  ASSERT_EQ(launcher.start(2).size(), 2U);
  std::ofstream(scratch_ / "go").put('x');
  expect_evidence(launcher);
  launcher.send(wire::StopWorkers{SIGKILL, 0});
  EXPECT_TRUE(launcher.wait_for<wire::WorkersGone>());
}

TEST_F(AgentMemory, SaysSoOfAWorkerInAGroupOfItsOwn) {
  const TestCgroup group(hierarchy, "memory");
  if (!group.made()) GTEST_SKIP() << "cannot make a memory cgroup here";
  limit(group);
  TestLauncher launcher({});
  wire::JobSpec job = this->job(eater(scratch_ / "go"));
  job.limits.hang_limit = std::chrono::nanoseconds(1);
  launcher.welcome(job);
  const auto pids = launcher.start(2);
  ASSERT_EQ(pids.size(), 2U);
  group.write("cgroup.procs", std::to_string(pids[1]));
  // The agent notices it at one of its periodic checks, like a stopped process.
  kill(pids[0], SIGSTOP);
  ASSERT_TRUE(launcher.wait_for<wire::WorkerStalled>());
  std::ofstream(scratch_ / "go").put('x');
  expect_evidence(launcher);
}

// The machine's count of OOM kills is not evidence if the workers' own group counts none.
TEST_F(AgentMemory, SaysNothingOfTheKindWhenTheKernelKilledAProcessOfAnotherJob) {
  const TestCgroup own(hierarchy, "memory");
  const TestCgroup other(hierarchy, "memory");
  if (!own.made() || !other.made()) GTEST_SKIP() << "cannot make a memory cgroup here";
  limit(other);
  TestLauncher launcher({.in_child = [&] { own.write("cgroup.procs", "0"); }});
  launcher.welcome(job("sleep 1000"));
  const auto pids = launcher.start(1);
  ASSERT_EQ(pids.size(), 1U);
  const pid_t victim = fork();
  if (victim == 0) {
    other.write("cgroup.procs", "0");
    execlp("python3", "python3", "-c", "x = b'x' * (1 << 30)", nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(victim, &status, 0);
  kill(pids[0], SIGKILL);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  const auto exited = launcher.wait_for<wire::WorkerExited>();
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->oom_kill_count, 0);
}

TEST_F(AgentMemory, SaysNothingOfTheKindWhenSomebodyElseKilledAWorker) {
  TestLauncher launcher({});
  launcher.welcome(job("sleep 1000"));
  const auto pids = launcher.start(2);
  ASSERT_EQ(pids.size(), 2U);
  kill(pids[1], SIGKILL);
  const auto exited = launcher.wait_for<wire::WorkerExited>();
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->oom_kill_count, 0);
  EXPECT_EQ(exited->memory_limit_bytes, 0);
  EXPECT_FALSE(exited->core_dumped);
  EXPECT_GT(exited->peak_memory_bytes, 0);
}

// Every user may raise the score, and lower it again to the old value.
TEST_F(AgentMemory, IsLessLikelyToBeKilledForItThanItsWorkers) {
  const auto score = [](pid_t pid) {
    return std::atoi(read_file(fmt::format("/proc/{}/oom_score_adj", pid), 64).value_or("9999").c_str());
  };
  TestLauncher launcher({.in_child = [] { std::ofstream("/proc/self/oom_score_adj") << 300; }});
  launcher.welcome(job("sleep 1000"));
  const auto pids = launcher.start(1);
  ASSERT_EQ(pids.size(), 1U);
  EXPECT_EQ(score(pids[0]), 300);
  EXPECT_LE(score(launcher.agent_pid()), 0);
}

TEST_F(AgentMemory, SaysThatACoreWasDumped) {
  TestLauncher launcher({});
  launcher.welcome(job("cd " + scratch_.path().string() + "; ulimit -c unlimited; kill -SEGV $$"));
  ASSERT_EQ(launcher.start(1).size(), 1U);
  const auto exited = launcher.wait_for<wire::WorkerExited>();
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->signal, SIGSEGV);
  // A worker gets no core file if it may not raise the limit, or if a helper program takes cores.
  const bool plain = !read_file("/proc/sys/kernel/core_pattern", 4096).value_or("|").starts_with("|");
  if (!plain) GTEST_SKIP() << "a program takes the cores on this machine";
  EXPECT_TRUE(exited->core_dumped);
}

}  // namespace
}  // namespace muster
