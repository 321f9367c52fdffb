// A real agent and its launcher: attempts started, refused and reported.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <netinet/in.h>
#include <poll.h>
#include <sstream>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "tests/process/agent_process_fixture.h"

namespace muster {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

bool can_connect(std::int32_t port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// The kernel informs a debugger first; until the debugger detaches, the agent sees no end.
TEST_F(AgentProcess, WaitsForADebuggerThatHasAWorkerWhichHasEnded) {
  TestLauncher launcher({});
  launcher.welcome(job("while ! [ -e " + scratch_ / "go" + " ]; do sleep 0.01; done; exit 3"));
  const auto pids = launcher.start(1);
  ASSERT_EQ(pids.size(), 1U);
  ASSERT_EQ(ptrace(PTRACE_SEIZE, pids[0], nullptr, nullptr), 0) << std::strerror(errno);
  std::ofstream(scratch_ / "go").put('x');
  // The shell may stop here because its children end.
  siginfo_t seen{};
  while (waitid(P_PID, static_cast<id_t>(pids[0]), &seen, WEXITED | WSTOPPED | WNOWAIT) == 0 &&
         seen.si_code == CLD_TRAPPED) {
    waitid(P_PID, static_cast<id_t>(pids[0]), &seen, WSTOPPED);
    ptrace(PTRACE_CONT, pids[0], nullptr, seen.si_status & 0x7f);
  }
  ASSERT_EQ(seen.si_code, CLD_EXITED);
  poll(nullptr, 0, 200);  // the agent calls waitid() meanwhile
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pids[0]), &seen, WEXITED), 0);
  const auto exited = launcher.wait_for<wire::WorkerExited>();
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->exit_code, 3);
  launcher.send(wire::Leave{});
  EXPECT_EQ(launcher.agent_exit(), 0);
}

TEST_F(AgentProcess, ReportsExitCodesAndSignalsInTheOrderOfTheExits) {
  TestLauncher launcher({});
  launcher.welcome(
      job("if [ $RANK = 1 ]; then exit 3; fi\n"
          "while [ -d /proc/self ] && ! [ -e " +
          scratch_ / "go" +
          " ]; do sleep 0.01; done\n"
          "if [ $RANK = 0 ]; then echo last words >&2; kill -KILL $$; fi\n"
          "while ! [ -e " +
          scratch_ / "go_on" + " ]; do sleep 0.01; done"));
  const auto pids = launcher.start(3);
  ASSERT_EQ(pids.size(), 3U);
  const auto first = launcher.wait_for<wire::WorkerExited>();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->rank, Rank(1));
  EXPECT_EQ(first->pid, pids[1]);
  EXPECT_EQ(first->exit_code, 3);
  EXPECT_EQ(first->signal, 0);
  EXPECT_FALSE(first->after_stop);
  std::ofstream(scratch_ / "go").put('x');
  const auto second = launcher.wait_for<wire::WorkerExited>();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->rank, Rank(0));
  EXPECT_EQ(second->signal, SIGKILL);
  EXPECT_GE(second->at_ns, first->at_ns);
  EXPECT_THAT(second->last_lines, ElementsAre("last words"));
  std::ofstream(scratch_ / "go_on").put('x');
  const auto third = launcher.wait_for<wire::WorkerExited>();
  ASSERT_TRUE(third);
  EXPECT_EQ(third->exit_code, 0);
  EXPECT_TRUE(launcher.wait_for<wire::WorkersGone>());
  launcher.send(wire::Leave{});
  EXPECT_EQ(launcher.agent_exit(), 0);
}

TEST_F(AgentProcess, RefusesAProgramThatIsNotThereOrCannotBeExecuted) {
  std::ofstream(scratch_ / "text").put('x');
  std::ofstream(scratch_ / "garbage") << "no program";
  std::filesystem::permissions(scratch_ / "garbage", std::filesystem::perms::owner_all);
  const std::pair<std::string, int> cases[] = {{"no-such-program", 127},
                                               {scratch_ / "nothing", 127},
                                               {scratch_ / "text", 126},
                                               {scratch_.path(), 126}};
  for (const auto& [program, exit_code] : cases) {
    TestLauncher launcher({});
    wire::JobSpec job = this->job("");
    job.command = {program};
    launcher.welcome(job);
    launcher.prepare(2);
    const auto refused = launcher.wait_for<wire::AttemptRefused>();
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->exit_code, exit_code) << program;
    EXPECT_THAT(refused->message, HasSubstr(program));
  }
}

TEST_F(AgentProcess, RefusesAFileOfNoProgramFormatWhenItIsExecuted) {
  std::ofstream(scratch_ / "garbage") << "no program";
  std::filesystem::permissions(scratch_ / "garbage", std::filesystem::perms::owner_all);
  TestLauncher launcher({});
  wire::JobSpec job = this->job("");
  job.command = {scratch_ / "garbage"};
  launcher.welcome(job);
  launcher.prepare(2);
  ASSERT_TRUE(launcher.wait_for<wire::AttemptPrepared>());
  launcher.send(wire::StartWorkers{"127.0.0.1", 1, {}});
  const auto refused = launcher.wait_for<wire::AttemptRefused>();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->exit_code, 126);
  EXPECT_TRUE(launcher.wait_for<wire::WorkersGone>());
}

TEST_F(AgentProcess, RefusesDirectoriesThatCannotBeUsed) {
  std::ofstream(scratch_ / "file").put('x');
  wire::JobSpec no_logs = job("true");
  no_logs.log_directory = scratch_ / "file" + "/logs";
  wire::JobSpec no_directory = job("true");
  no_directory.working_directory = scratch_ / "nowhere";
  for (const auto& [job, named] :
       {std::pair(no_logs, scratch_ / "file"), std::pair(no_directory, scratch_ / "nowhere")}) {
    TestLauncher launcher({});
    launcher.welcome(job);
    launcher.prepare(1);
    const auto refused = launcher.wait_for<wire::AttemptRefused>();
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->exit_code, 2);
    EXPECT_THAT(refused->message, HasSubstr(named));
  }
}

TEST_F(AgentProcess, HasMoreDescriptorsThanItIsGivenAndItsWorkersHaveThose) {
  TestLauncher launcher({.in_child = [] {
    const rlimit limit{32, 1024};
    setrlimit(RLIMIT_NOFILE, &limit);
  }});
  launcher.welcome(job("ulimit -Sn; ulimit -Hn"));
  ASSERT_EQ(launcher.start(16).size(), 16U);
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  EXPECT_EQ(launcher.output(15, 1), "32\n1024\n");
}

TEST_F(AgentProcess, RefusesWithAFailureOfItsOwnWhenDescriptorsRunOut) {
  TestLauncher launcher({.in_child = [] {
    const rlimit limit{32, 32};
    setrlimit(RLIMIT_NOFILE, &limit);
  }});
  launcher.welcome(job("true"));
  launcher.prepare(16);
  const auto refused = launcher.wait_for<wire::AttemptRefused>();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->exit_code, 125);
  EXPECT_THAT(refused->message, HasSubstr("Too many open files"));
}

TEST_F(AgentProcess, RefusesToServeMoreRanksThanItHasDescriptorsFor) {
  TestLauncher launcher({.in_child = [] {
    const rlimit limit{256, 256};
    setrlimit(RLIMIT_NOFILE, &limit);
  }});
  launcher.welcome(job("true"));
  wire::PrepareAttempt plan;
  plan.node_count = 1000;
  plan.world_size = 1000;
  plan.local_world_size = 1;
  plan.host_store = true;
  plan.store_address = "127.0.0.1";
  launcher.send(plan);
  const auto refused = launcher.wait_for<wire::AttemptRefused>();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->exit_code, 125);
  EXPECT_THAT(refused->message,
              HasSubstr("cannot watch 1 workers and serve 1000 ranks with 256 descriptors"));
}

TEST_F(AgentProcess, GivesWorkersTorchrunsEnvironmentAndNothingOfItsOwn) {
  TestLauncher launcher({.environment = {"OMP_NUM_THREADS=3", "MUSTER_RESUME_STEP=9"}});
  launcher.welcome(job(
      "env; echo fds $(ls /proc/self/fd | tr '\\n' ' '); readlink /proc/self/fd/0; "
      "grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status; ps -o sid= -p $$ 2>/dev/null | tr -d ' '; echo pid $$"));
  const auto pids = launcher.start(2);
  ASSERT_EQ(pids.size(), 2U);
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  const std::string text = launcher.output(1, 1);
  for (const std::string line :
       {"LOCAL_RANK=1", "RANK=1", "GROUP_RANK=0", "ROLE_RANK=1", "ROLE_NAME=default", "LOCAL_WORLD_SIZE=2",
        "WORLD_SIZE=2", "GROUP_WORLD_SIZE=1", "ROLE_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
        "MASTER_PORT=29500", "TORCHELASTIC_RESTART_COUNT=0", "TORCHELASTIC_MAX_RESTARTS=0",
        "TORCHELASTIC_USE_AGENT_STORE=True", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1", "OMP_NUM_THREADS=3",
        "MUSTER_ATTEMPT=1", "MUSTER_NODE_ID=0"}) {
    EXPECT_THAT("\n" + text, HasSubstr("\n" + line + "\n"));
  }
  EXPECT_THAT(text, ContainsRegex("TORCHELASTIC_ERROR_FILE=/[^\n]*/attempt_1/error_1.json\n"));
  EXPECT_THAT(text, Not(HasSubstr("MUSTER_RESUME_STEP")));
  EXPECT_THAT(text, Not(HasSubstr("MUSTER_CHECKPOINT_DIR")));
  EXPECT_THAT(text, HasSubstr("fds 0 1 2 3\n"));  // fd 3 is the directory that ls reads
  EXPECT_THAT(text, HasSubstr("\n/dev/null\n"));
  EXPECT_THAT(text, HasSubstr("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"));
}

TEST_F(AgentProcess, RestartsOnTheSameConnectionWithFreshLogs) {
  TestLauncher launcher({});
  launcher.welcome(job("echo attempt $MUSTER_ATTEMPT"));
  ASSERT_EQ(launcher.start(2).size(), 2U);
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  launcher.set_attempt(Attempt(2));
  ASSERT_EQ(launcher.start(2).size(), 2U);
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  EXPECT_EQ(log("rank_1/stdout.log"), "attempt 1\n");
  EXPECT_EQ(read_file(scratch_ / "logs/attempt_2/rank_1/stdout.log", 99).value_or(""), "attempt 2\n");
}

TEST_F(AgentProcess, HostsAFreshStoreForTheAttempt) {
  TestLauncher launcher({});
  launcher.welcome(job("true"));
  wire::PrepareAttempt plan;
  plan.node_count = plan.world_size = plan.local_world_size = 1;
  plan.host_store = true;
  plan.store_address = "127.0.0.1";
  launcher.send(plan);
  const auto prepared = launcher.wait_for<wire::AttemptPrepared>();
  ASSERT_TRUE(prepared);
  EXPECT_TRUE(can_connect(prepared->store_port));
  launcher.send(wire::StopWorkers{SIGTERM, 0});
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  EXPECT_FALSE(can_connect(prepared->store_port));
}

// A rank on another node may end later, and needs the store until then.
TEST_F(AgentProcess, KeepsTheStoreForOtherNodesUntilTheNextAttempt) {
  TestLauncher launcher({});
  launcher.welcome(job("true"));
  wire::PrepareAttempt plan;
  plan.node_count = plan.world_size = 2;
  plan.local_world_size = 1;
  plan.host_store = true;
  plan.store_address = "127.0.0.1";
  launcher.send(plan);
  const auto prepared = launcher.wait_for<wire::AttemptPrepared>();
  ASSERT_TRUE(prepared);
  launcher.send(wire::StartWorkers{"127.0.0.1", prepared->store_port, std::nullopt});
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  EXPECT_TRUE(can_connect(prepared->store_port));
  launcher.set_attempt(Attempt(2));
  launcher.send(plan);
  ASSERT_TRUE(launcher.wait_for<wire::AttemptPrepared>());
  EXPECT_FALSE(can_connect(prepared->store_port));
  launcher.send(wire::StartWorkers{"127.0.0.1", prepared->store_port, std::nullopt});
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  launcher.send(wire::Leave{});
  EXPECT_EQ(launcher.agent_exit(), 0);
}

TEST_F(AgentProcess, AnswersPings) {
  TestLauncher launcher({});
  launcher.send(wire::Ping{42});
  const auto pong = launcher.wait_for<wire::Pong>();
  ASSERT_TRUE(pong);
  EXPECT_EQ(pong->sent_ns, 42);
  EXPECT_GT(pong->at_ns, 0);
}

TEST_F(AgentProcess, StaysSmallWithFourWorkers) {
  TestLauncher launcher({});
  launcher.welcome(job("echo ready; sleep 1000"));
  ASSERT_EQ(launcher.start(4).size(), 4U);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(launcher.wait_for<wire::Output>());
  std::istringstream status(
      read_file("/proc/" + std::to_string(launcher.agent_pid()) + "/status", 1 << 16).value_or(""));
  long resident_kib = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) resident_kib = std::stol(line.substr(6));
  }
  RecordProperty("resident_kib", std::to_string(resident_kib));
  EXPECT_GT(resident_kib, 0);
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
  EXPECT_LT(resident_kib, 16 << 10);
#endif
}

}  // namespace
}  // namespace muster
