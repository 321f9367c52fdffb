// A real agent with real workers: what the launcher hears, and that nothing of a job survives.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sstream>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/process/agent_test_launcher.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Leaves a process behind that has a session of its own and is nobody's child.
constexpr const char* kDaemon =
    "(setsid sh -c 'trap \"\" TERM; exec sleep 1000' </dev/null >/dev/null 2>&1 &) ; ";

bool can_connect(std::int32_t port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

bool send_datagram(const std::string& path, const std::string& datagram) {
  const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return sendto(fd.get(), datagram.data(), datagram.size(), 0, reinterpret_cast<const sockaddr*>(&address),
                sizeof address) == static_cast<ssize_t>(datagram.size());
}

class AgentProcess : public testing::Test {
 protected:
  wire::JobSpec job(const std::string& script) { return shell_job(script, scratch_ / "logs"); }
  std::string log(const std::string& name) {
    return read_file(scratch_ / ("logs/attempt_1/" + name), 1 << 30).value_or("(none)");
  }
  std::vector<pid_t> processes() { return processes_with("MUSTER_JOB_ID=" + job("").job_id); }

  ScratchDirectory scratch_;
};

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

TEST_F(AgentProcess, KeepsTheOutputOfANoisyWorkerCompleteAndWhole) {
  constexpr int kLines = 20000;
  TestLauncher launcher({});
  launcher.welcome(
      job("i=0; while [ $i -lt 20000 ]; do printf 'line'; printf ' %s of %s\\n' $i $RANK; i=$((i+1)); done; "
          "printf end"));
  ASSERT_EQ(launcher.start(2).size(), 2U);
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  for (const int rank : {0, 1}) {
    std::ostringstream expected;
    for (int i = 0; i < kLines; ++i) expected << "line " << i << " of " << rank << '\n';
    expected << "end";
    EXPECT_TRUE(log("rank_" + std::to_string(rank) + "/stdout.log") == expected.str());
    EXPECT_TRUE(launcher.output(rank, 1) == expected.str() + "\n");
  }
  for (const auto& output : launcher.all<wire::Output>()) {
    ASSERT_FALSE(output.text.empty());
    EXPECT_EQ(output.text.back(), '\n');
    EXPECT_LE(output.text.size(), 64U << 10);
    EXPECT_EQ(output.dropped_line_count, 0U);
  }
}

TEST_F(AgentProcess, KeepsRedirectedStreamsOffTheTerminalOnly) {
  TestLauncher launcher({});
  wire::JobSpec job = this->job("echo out; echo err >&2");
  job.redirects = {1, 2};
  launcher.welcome(job);
  ASSERT_EQ(launcher.start(2).size(), 2U);
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  EXPECT_EQ(launcher.output(0, 1), "");
  EXPECT_EQ(launcher.output(0, 2), "err\n");
  EXPECT_EQ(launcher.output(1, 1), "out\n");
  EXPECT_EQ(launcher.output(1, 2), "");
  EXPECT_EQ(log("rank_0/stdout.log"), "out\n");
  EXPECT_EQ(log("rank_1/stderr.log"), "err\n");
}

TEST_F(AgentProcess, DropsAndCountsTerminalLinesWhenTheLauncherDoesNotRead) {
  TestLauncher launcher({});
  const std::string done = scratch_ / "done";
  launcher.welcome(job("seq 1 2000000; : > " + done));
  ASSERT_EQ(launcher.start(1).size(), 1U);
  ASSERT_TRUE(eventually([&done] { return std::filesystem::exists(done); }, std::chrono::seconds(30)));
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  const std::string terminal = launcher.output(0, 1);
  std::uint64_t lines = static_cast<std::uint64_t>(std::ranges::count(terminal, '\n'));
  std::uint64_t dropped = 0;
  for (const auto& output : launcher.all<wire::Output>()) dropped += output.dropped_line_count;
  EXPECT_GT(dropped, 0U);
  EXPECT_EQ(lines + dropped, 2000000U);
  const std::string file = log("rank_0/stdout.log");
  EXPECT_EQ(std::ranges::count(file, '\n'), 2000000);
}

TEST_F(AgentProcess, GoesOnWhenALogFileCannotGrow) {
  TestLauncher launcher({.in_child = [] {
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
  }});
  launcher.welcome(job("seq 1 5000; exit 7"));
  ASSERT_EQ(launcher.start(1).size(), 1U);
  const auto exited = launcher.wait_for<wire::WorkerExited>();
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->exit_code, 7);
  EXPECT_EQ(log("rank_0/stdout.log").size(), 4096U);
  const std::string terminal = launcher.output(0, 1);
  EXPECT_EQ(std::ranges::count(terminal, '\n'), 5001);
  EXPECT_EQ(terminal.find("muster: cannot write"), terminal.rfind("muster: cannot write"));
  EXPECT_THAT(terminal, HasSubstr("muster: cannot write " +
                                  scratch_ / "logs/attempt_1/rank_0/stdout.log: File too large"));
}

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

TEST_F(AgentProcess, ReportsTheEndOfAWorkerWhosePipeIsHeldOpenByAnother) {
  TestLauncher launcher({});
  launcher.welcome(job("(setsid sleep 1000 &); echo bye; exit 4"));
  ASSERT_EQ(launcher.start(1).size(), 1U);
  const auto exited = launcher.wait_for<wire::WorkerExited>();
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->exit_code, 4);
  EXPECT_EQ(launcher.output(0, 1), "bye\n");
  // The leftover was killed before the agent said that all are gone.
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  EXPECT_THAT(processes(), IsEmpty());
}

TEST_F(AgentProcess, LeavesNothingBehindWhenItLeaves) {
  TestLauncher launcher({});
  launcher.welcome(job(std::string(kDaemon) + "echo ready; sleep 1000"));
  ASSERT_EQ(launcher.start(2).size(), 2U);
  while (launcher.output(0, 1).empty() || launcher.output(1, 1).empty())
    ASSERT_TRUE(launcher.wait_for<wire::Output>());
  ASSERT_TRUE(eventually([this] { return processes().size() >= 4; }));
  launcher.send(wire::Leave{});
  EXPECT_EQ(launcher.agent_exit(), 0);
  EXPECT_THAT(processes(), IsEmpty());
}

TEST_F(AgentProcess, LeavesNothingBehindWhenItIsKilled) {
  std::filesystem::create_directory(scratch_ / "run");
  TestLauncher launcher({.environment = {"TMPDIR=" + scratch_ / "run"}});
  launcher.welcome(job(std::string(kDaemon) + "echo ready; sleep 1000"));
  ASSERT_EQ(launcher.start(2).size(), 2U);
  while (launcher.output(0, 1).empty() || launcher.output(1, 1).empty())
    ASSERT_TRUE(launcher.wait_for<wire::Output>());
  ASSERT_TRUE(eventually([this] { return processes().size() >= 4; }));
  kill(launcher.agent_pid(), SIGKILL);
  EXPECT_EQ(launcher.agent_exit(), 128 + SIGKILL);
  EXPECT_TRUE(eventually([this] { return processes().empty(); }, std::chrono::seconds(5)));
  EXPECT_TRUE(eventually([this] { return std::filesystem::is_empty(scratch_ / "run"); }));
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
  EXPECT_THAT(text, HasSubstr("TORCHELASTIC_ERROR_FILE=" + scratch_ / "logs/attempt_1/rank_1/error.json\n"));
  EXPECT_THAT(text, Not(HasSubstr("MUSTER_RESUME_STEP")));
  EXPECT_THAT(text, Not(HasSubstr("MUSTER_CHECKPOINT_DIR")));
  EXPECT_THAT(text, HasSubstr("fds 0 1 2 3\n"));  // the fourth is the directory that ls reads
  EXPECT_THAT(text, HasSubstr("\n/dev/null\n"));
  EXPECT_THAT(text, HasSubstr("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"));
}

TEST_F(AgentProcess, PassesOnTheErrorFile) {
  TestLauncher launcher({});
  launcher.welcome(job("printf '{\"message\":1}' > $TORCHELASTIC_ERROR_FILE; exit 1"));
  ASSERT_EQ(launcher.start(1).size(), 1U);
  const auto exited = launcher.wait_for<wire::WorkerExited>();
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->error_file, "{\"message\":1}");
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

TEST_F(AgentProcess, PassesOnWhatWorkersSayAndIgnoresGarbage) {
  TestLauncher launcher({});
  launcher.welcome(job("echo $MUSTER_SOCKET; sleep 1000"));
  ASSERT_EQ(launcher.start(2).size(), 2U);
  while (launcher.output(0, 1).empty()) ASSERT_TRUE(launcher.wait_for<wire::Output>());
  std::string path = launcher.output(0, 1);
  path.pop_back();
  const auto say = [&path](const std::string& datagram) { return send_datagram(path, datagram); };
  EXPECT_TRUE(say("garbage"));
  EXPECT_TRUE(say(std::string(9000, 'x')));
  EXPECT_TRUE(say(R"({"v":1,"type":"finished","rank":0,"attempt":7,"step":1})"));
  EXPECT_TRUE(say(R"({"v":1,"type":"finished","rank":5,"attempt":1,"step":2})"));
  for (int step = 1; step <= 50; ++step) {
    EXPECT_TRUE(say(R"({"v":1,"type":"step","rank":0,"attempt":1,"pid":1,"text":"","step":)" +
                    std::to_string(step) + "}"));
  }
  EXPECT_TRUE(say(R"({"v":1,"type":"committed","rank":1,"attempt":1,"step":40})"));
  launcher.send(wire::StopWorkers{SIGTERM, 5'000'000'000});
  ASSERT_TRUE(launcher.wait_for<wire::WorkerExited>());
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  const auto reports = launcher.all<wire::WorkerReported>();
  ASSERT_GE(reports.size(), 2U);
  EXPECT_LT(reports.size(), 20U);
  std::int64_t last_step = 0;
  int committed = 0;
  for (const auto& report : reports) {
    if (report.rank == Rank(0)) last_step = report.step;
    if (report.rank == Rank(1)) committed += report.kind == "committed" ? 1 : 0;
    EXPECT_NE(report.kind, "finished");
  }
  EXPECT_EQ(last_step, 50);
  EXPECT_EQ(committed, 1);
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
