// The real launcher with users' input: errors, scripts, files, variables, output.
#include <algorithm>
#include <arpa/inet.h>
#include <csignal>
#include <filesystem>
#include <fmt/ranges.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <regex>
#include <sched.h>
#include <set>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/text.h"
#include "common/net/connect.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct BadInput {
  std::vector<std::string> arguments;
  int exit_code;
  const char* message;
};
// The name of the test.
void PrintTo(const BadInput& input, std::ostream* out) {
  *out << fmt::format("{}", fmt::join(input.arguments, " "));
}
class LaunchBadInput : public testing::TestWithParam<BadInput> {};

TEST_P(LaunchBadInput, GetsOneLineAndStartsNothing) {
  LaunchRun run(GetParam().arguments);
  EXPECT_EQ(run.exit_code(), GetParam().exit_code);
  const std::string error = run.err();
  EXPECT_THAT(error, HasSubstr(GetParam().message));
  EXPECT_TRUE(error.starts_with("launch: ")) << error;
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
  EXPECT_THAT(run.out(), IsEmpty());
  EXPECT_EQ(run.job_directory(), "") << "nothing is started, so nothing is logged";
}

INSTANTIATE_TEST_SUITE_P(
    Table, LaunchBadInput,
    testing::Values(
        BadInput{{"--nodes", "0", "true"}, 2, "--nodes: 0 is not a number of nodes: give 1 or more"},
        BadInput{{"--ndoes", "1", "true"}, 2, "did you mean --nodes?"}, BadInput{{}, 2, "no program given"},
        BadInput{{"--device", "cuda", "--gpus-per-node", "1000", "true"}, 2, "there are 1000 workers and "},
        BadInput{
            {"--log-dir", "/proc/nowhere", "true"}, 2, "--log-dir: cannot create directory /proc/nowhere"},
        BadInput{{"--checkpoint-dir", "/proc/nowhere", "true"}, 2, "--checkpoint-dir: "},
        BadInput{{"--backend", "zeus", "true"}, 2, "--backend: zeus is none of gloo, nccl, mpi, shm"},
        BadInput{{"--nnodes", "4:1", "true"}, 2, "--nnodes: 4:1 has MIN above MAX"},
        BadInput{{"--mpi", "openmpi", "true"}, 2, "--mpi: openmpi is none of auto, pmix, pmi, none"},
        BadInput{{"--backend", "mpi", "--mpi", "none", "true"}, 2, "--mpi: none leaves each rank alone, but"},
        BadInput{{"--role", "", "true"}, 2, "--role: (empty) is not a name"},
        BadInput{{"--time-limit", "2x", "true"}, 2, "--time-limit: 2x is not a time"},
        BadInput{{"--nnodes", "2", "--node-rank", "1", "true"}, 2, "one of several launchers"},
        BadInput{{"--numa-binding", "node", "true"}, 2, "--numa-binding: not supported"},
        BadInput{{"--rdzv-backend", "zeus", "true"}, 2, "--rdzv-backend: zeus is none of static, c10d"},
        BadInput{{"--signals-to-handle", "SIGTERM,SIGFOO", "true"}, 2, "SIGFOO is not a signal name"},
        BadInput{{"--config", "/no/such.yaml", "true"}, 2, "/no/such.yaml: No such file"},
        BadInput{
            {"--nodes", "2", "--stdin", "2", "true"}, 2, "--stdin: 2 is not a rank of this job: give 0 to 1"},
        BadInput{{"--wrap", "1:gdb", "true"}, 2, "--wrap: 1 is not a rank of this job: give 0"},
        BadInput{{"no-such-program"}, 127, "no-such-program: not found in PATH"},
        BadInput{{"/no/such.py"}, 127, "/no/such.py: not found"},
        BadInput{{"/etc/passwd"}, 126, "/etc/passwd: not executable"},
        BadInput{{"/etc"}, 126, "/etc: is a directory"}));

TEST(LaunchInput, WhatHostsLackAndThisMachineTooIsNoMatterOfCopying) {
  ScratchDirectory scratch;
  for (const char* program : {"./no-such-program", "./no-such-script.py"}) {
    LaunchRun run({"--hosts", "h[0-2]", "--exec", "env HOST={host}", program}, {{"HOME", scratch.path()}});
    EXPECT_EQ(run.exit_code(), 127) << run.err();
    EXPECT_THAT(run.err(), HasSubstr(std::string(program).substr(1) +
                                     ": No such file or directory (it is missing here, too)"));
    EXPECT_THAT(run.err(), Not(HasSubstr("/./")));
  }
}

TEST(LaunchInput, AScriptThatNamesNoInterpreterIsNamedWithItsHostAndWhatItLacks) {
  ScratchDirectory scratch;
  const std::string script = scratch / "script";
  std::ofstream(script) << "echo hello\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  LaunchRun run({"--hosts", "h0", "--exec", "env HOST={host}", script}, {{"HOME", scratch.path()}});
  EXPECT_EQ(run.exit_code(), 126) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("h0"));
  EXPECT_THAT(run.err(), HasSubstr("cannot execute " + script +
                                   ": Exec format error (a script's first line must be like #!/bin/sh; "));
}

TEST(LaunchInput, MakesNoCheckpointDirectoryWhereLogsCannotBeKept) {
  ScratchDirectory scratch;
  LaunchRun run({"--log-dir", "/proc/nowhere", "--checkpoint-dir", scratch / "c", "true"});
  EXPECT_EQ(run.exit_code(), 2);
  EXPECT_THAT(run.err(), HasSubstr("--log-dir: "));
  EXPECT_FALSE(std::filesystem::exists(scratch / "c"));
}

TEST(LaunchInput, FindsOutOnTheNodeWhatCannotBeExecuted) {
  ScratchDirectory scratch;
  const std::string program = scratch / "program";
  std::ofstream(program) << "not a program";
  std::filesystem::permissions(program, std::filesystem::perms(0755));
  LaunchRun run({"--nodes", "2", program});
  EXPECT_EQ(run.exit_code(), 126);
  EXPECT_THAT(run.err(), HasSubstr("Exec format error"));
}

TEST(LaunchInput, RunsPythonScriptsAndModulesAsTorchrunDoes) {
  ScratchDirectory scratch;
  std::ofstream(scratch / "hello.py") << "import os, sys\nprint('rank', os.environ['RANK'], sys.argv[1:])\n";
  LaunchRun script({"--standalone", "--nproc_per_node=2", scratch / "hello.py", "--lr", "1"});
  EXPECT_EQ(script.exit_code(), 0) << script.err();
  EXPECT_THAT(script.out(), HasSubstr("node0:1: rank 1 ['--lr', '1']\n"));
  LaunchRun module({"-m", "hello", "x"}, {{"PYTHONPATH", scratch.path().string()}});
  EXPECT_EQ(module.exit_code(), 0) << module.err();
  EXPECT_THAT(module.out(), HasSubstr("node0:0: rank 0 ['x']\n"));
}

// Listens on a free port of this machine while it lives.
class TakenPort {
 public:
  TakenPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in place{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof place;
    CHECK(bind(socket_.get(), reinterpret_cast<sockaddr*>(&place), size) == 0);
    CHECK(listen(socket_.get(), 1) == 0);
    CHECK(getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&place), &size) == 0);
    number_ = std::to_string(ntohs(place.sin_port));
  }
  const std::string& number() const { return number_; }
  void release() { socket_.reset(); }

 private:
  UniqueFd socket_;
  std::string number_;
};

TEST(LaunchInput, UsesTheMasterPortThatIsGivenInEachAttempt) {
  TakenPort port;
  port.release();
  LaunchRun run(
      {"--master-port", port.number(), "--gpus-per-node", "2", "--max-restarts", "1", "sh", "-c",
       "echo port $MASTER_PORT; exec python3 -c 'import socket, os, sys; socket.create_connection((os."
       "environ[\"MASTER_ADDR\"], int(os.environ[\"MASTER_PORT\"]))); "
       "sys.exit(int(os.environ[\"TORCHELASTIC_RESTART_COUNT\"]) == 0 and 3)'"});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("node0:1: port " + port.number() + "\n"));
  EXPECT_EQ(run.report().at("restarts"), 1);
}

constexpr const char* kServesItself = R"(
import os, socket, sys, time
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    socket.create_server(place).accept()
else:
    while True:
        try:
            socket.create_connection(place)
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
sys.exit(3 if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" else 0)
)";

TEST(LaunchInput, LeavesThePortOfTheStoreToRank0) {
  LaunchRun run(
      {"--store", "worker", "--nodes", "2", "--max-restarts", "1", "--", "python3", "-c", kServesItself});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(run.report().at("restarts"), 1) << run.err();
}

TEST(LaunchInput, RefusesAMasterPortThatIsTaken) {
  const TakenPort port;
  const std::string reason = ": cannot use port " + port.number() + ": Address already in use";
  LaunchRun flag({"--master-port", port.number(), "true"});
  EXPECT_EQ(flag.exit_code(), 2);
  EXPECT_THAT(flag.err(), HasSubstr("launch: --master-port" + reason));
  EXPECT_EQ(flag.job_directory(), "");
  LaunchRun variable({"true"}, {{"PET_MASTER_PORT", port.number()}});
  EXPECT_EQ(variable.exit_code(), 2);
  EXPECT_THAT(variable.err(), HasSubstr("launch: PET_MASTER_PORT" + reason));
  LaunchRun elsewhere({"--standalone", "--master-port", port.number(), "true"});
  EXPECT_EQ(elsewhere.exit_code(), 0) << elsewhere.err();
}

TEST(LaunchInput, BeginsLinesAsTheUserWants) {
  LaunchRun run({"--nodes", "2", "--role", "trainer", "--log-line-prefix-template",
                 "[${role_name} ${local_rank}/${rank}] ", "sh", "-c", "echo line"});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("[trainer 0/1] line\n"));
  EXPECT_THAT(run.out(), Not(HasSubstr("node1:1: ")));
}

TEST(LaunchInput, ShowsLinesAsTheyAreWithoutAPrefix) {
  ScratchDirectory scratch;
  std::ofstream(scratch / "job.yaml") << "nodes: 2\nno-prefix: true\n";
  LaunchRun run({"--config", scratch / "job.yaml", "sh", "-c",
                 "for i in 0 1 2 3 4 5 6 7 8 9; do echo \"rank $RANK: line $i\"; done; printf end"});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  const std::string out = run.out();
  std::multiset<std::string_view> lines;
  for (const std::string_view line : split(out, '\n')) lines.insert(line);
  std::multiset<std::string> expected = {"end", "end", ""};
  for (int i = 0; i < 20; ++i) expected.insert(fmt::format("rank {}: line {}", i / 10, i % 10));
  EXPECT_THAT(lines, testing::ElementsAreArray(expected));
}

TEST(LaunchInput, ReadsTheConfigurationFileAndVariables) {
  ScratchDirectory scratch;
  std::ofstream(scratch / "job.yaml") << "nodes: 2\ngpus-per-node: 1\nenv: {GREETING: good day}\nprogram: "
                                         "[sh, -c, 'echo $GREETING $RANK/$WORLD_SIZE']\n";
  LaunchRun run({"--config", scratch / "job.yaml"}, {{"PET_NPROC_PER_NODE", "2"}});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("node1:3: good day 3/4\n"));
}

TEST(LaunchInput, RefusesAnAllocationOfSeveralNodes) {
  LaunchRun run({"true"}, {{"SLURM_JOB_NUM_NODES", "2"}});
  EXPECT_EQ(run.exit_code(), 2);
  EXPECT_THAT(run.err(), HasSubstr("Slurm allocated "));
}

TEST(LaunchInput, TouchesNothingInADryRun) {
  LaunchRun run(
      {"--dry-run", "--nodes", "2", "--checkpoint-dir", "/proc/nowhere", "sh", "-c", "echo started"});
  EXPECT_EQ(run.exit_code(), 0);
  EXPECT_THAT(run.out(), HasSubstr("node1"));
  EXPECT_THAT(run.out(), Not(HasSubstr("started\n")));
  EXPECT_FALSE(std::filesystem::exists(run.scratch() / "state"));
}

TEST(LaunchInput, CountsTheCoresThatItMayUse) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  LaunchRun run({"--dry-run", "--json", "--gpus-per-node", "cpu", "true"});
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(nlohmann::json::parse(run.out())["world_size"], 1);
}

TEST(LaunchInput, CountsGpusByTheDriversLibrary) {
  LaunchRun refused({"--device", "cuda", "--gpus-per-node", "4", "true"},
                    {{"LD_LIBRARY_PATH", FAKE_NVML_DIRECTORY}});
  EXPECT_EQ(refused.exit_code(), 2);
  EXPECT_THAT(refused.err(), HasSubstr("there are 4 workers and 3 GPUs"));
  LaunchRun plan({"--dry-run", "--json", "--gpus-per-node", "auto", "true"},
                 {{"LD_LIBRARY_PATH", FAKE_NVML_DIRECTORY}});
  EXPECT_EQ(plan.exit_code(), 0);
  EXPECT_EQ(nlohmann::json::parse(plan.out())["world_size"], 3);
  LaunchRun limited({"--dry-run", "--json", "--nproc-per-node", "gpu", "true"},
                    {{"LD_LIBRARY_PATH", FAKE_NVML_DIRECTORY}, {"CUDA_VISIBLE_DEVICES", "2,0"}});
  EXPECT_EQ(limited.exit_code(), 0) << limited.err();
  EXPECT_EQ(nlohmann::json::parse(limited.out())["world_size"], 2);
}

TEST(LaunchInput, LetsWorkersShareGpus) {
  const std::map<std::string, std::string> driver{{"LD_LIBRARY_PATH", FAKE_NVML_DIRECTORY}};
  LaunchRun shared(
      {"--share-gpus", "--gpus-per-node", "6", "sh", "-c", "echo $LOCAL_RANK on $CUDA_VISIBLE_DEVICES"},
      driver);
  EXPECT_EQ(shared.exit_code(), 0) << shared.err();
  EXPECT_THAT(shared.err(), HasSubstr("6 workers and 3 GPUs: workers share"));
  EXPECT_THAT(shared.out(), HasSubstr("node0:5: 0 on 2"));
  LaunchRun alone({"--gpus-per-node", "4", "--max-restarts", "0", "sh", "-c",
                   "echo CUDA error: invalid device ordinal >&2; exit 1"},
                  driver);
  EXPECT_EQ(alone.exit_code(), 1);
  EXPECT_THAT(alone.err(), HasSubstr("4 workers and 3 GPUs: workers get no GPU of their own"));
  EXPECT_THAT(alone.err(),
              HasSubstr("let them share GPUs with --share-gpus, or do without with --device cpu"));
}

TEST(LaunchInput, NamesAGpuThatAnotherUserFillsAndWaitsForIt) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t other = fork();
  if (other == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (setuid(65534) == 0 && write(ready[1], "", 1) == 1) pause();
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const ScratchDirectory scratch;
  const std::string memory = scratch / "memory";
  const auto fill = [&](const std::string& line) {  // in one step: launch reads the file all the time
    std::ofstream(memory + ".new") << line;
    std::filesystem::rename(memory + ".new", memory);
  };
  fill(fmt::format("1 70000 {0} 70000\n", other));
  const std::map<std::string, std::string> driver{{"LD_LIBRARY_PATH", FAKE_NVML_DIRECTORY},
                                                  {"FAKE_NVML_MEMORY", memory}};
  const std::string in_use = fmt::format("GPU 1 is in use: process {} of ", other);
  LaunchRun told({"--gpus-per-node", "2", "true"}, driver);
  EXPECT_EQ(told.exit_code(), 0);
  EXPECT_THAT(told.err(), testing::AllOf(HasSubstr(in_use), HasSubstr(" holds 70000 MiB")));
  LaunchRun another({"--gpus-per-node", "1", "true"}, driver);
  EXPECT_EQ(another.exit_code(), 0);
  EXPECT_THAT(another.err(), Not(HasSubstr("in use"))) << "the job does not use GPU 1";
  LaunchRun in_vain({"--gpus-per-node", "2", "--wait-for-gpus", "0.3", "true"}, driver);
  EXPECT_EQ(in_vain.exit_code(), 69);
  EXPECT_THAT(in_vain.err(), HasSubstr("launch: --wait-for-gpus: still waiting after 0.3 s: " + in_use));
  LaunchRun stopped({"--gpus-per-node", "2", "--wait-for-gpus", "1000", "true"}, driver);
  ASSERT_TRUE(stopped.printed("waiting up to 1000 s for it")) << stopped.err();
  stopped.signal(SIGTERM);
  EXPECT_EQ(stopped.exit_code(), 143);
  LaunchRun waits({"--gpus-per-node", "2", "--wait-for-gpus", "1000", "true"}, driver);
  ASSERT_TRUE(waits.printed("waiting up to 1000 s for it")) << waits.err();
  fill("");
  EXPECT_EQ(waits.exit_code(), 0);
  EXPECT_THAT(waits.err(), HasSubstr("the job's GPUs are free after "));
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
}

TEST(LaunchOutput, KeepsTheReportOnStdoutAndTheWorkersOnStderr) {
  LaunchRun run({"--json", "--gpus-per-node", "2", "sh", "-c", "echo text"});
  EXPECT_EQ(run.exit_code(), 0);
  EXPECT_EQ(nlohmann::json::parse(run.out()), run.report());
  EXPECT_THAT(run.err(), HasSubstr("node0:1: text\n"));
}

TEST(LaunchOutput, IsOnlyTheWorkersWhenQuiet) {
  LaunchRun run({"--quiet", "--rdzv-backend", "c10d", "--gpus-per-node", "2", "sh", "-c", "echo text"});
  EXPECT_EQ(run.exit_code(), 0);
  EXPECT_THAT(run.err(), IsEmpty());
}

TEST(LaunchOutput, KeepsRedirectedStreamsOffTheTerminalAndInTheFiles) {
  LaunchRun run(
      {"-r", "3", "-t", "0:1", "--gpus-per-node", "2", "sh", "-c", "echo out $RANK; echo err $RANK >&2"});
  EXPECT_EQ(run.exit_code(), 0);
  EXPECT_EQ(run.out(), "node0:0: out 0\n");
  EXPECT_THAT(run.err(), Not(HasSubstr("err ")));
  EXPECT_EQ(read_file(run.job_directory() + "/attempt_1/rank_1/stderr.log", 1000).value_or(""), "err 1\n");
}

TEST(LaunchOutput, KeepsEveryLineWhole) {
  constexpr int kLines = 2000;
  LaunchRun run(
      {"--nodes", "2", "--gpus-per-node", "2", "sh", "-c",
       fmt::format("i=0; while [ $i -lt {} ]; do echo line $i of $RANK; i=$((i+1)); done", kLines)});
  EXPECT_EQ(run.exit_code(), 0);
  const std::string out = run.out();
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 4 * kLines);
  EXPECT_TRUE(
      std::regex_match(out.substr(0, out.find('\n')), std::regex("node[01]:[0-3]: line [0-9]+ of [0-3]")));
  EXPECT_THAT(out, HasSubstr(fmt::format("node1:3: line {} of 3\n", kLines - 1)));
}

// With an unlimited stack, the kernel accepts command lines of up to 6 MiB.
TEST(LaunchInput, RefusesACommandThatIsTooLongForTheAgents) {
  LaunchRun run({"-c",
                 "ulimit -s unlimited || exit 77; word=$(printf %0100000d 0); "
                 "exec " LAUNCH_PROGRAM " true $(for i in $(seq 45); do echo $word; done)"},
                {}, "/bin/bash");
  const int exit_code = run.exit_code();
  if (exit_code == 77) GTEST_SKIP() << "the size of the stack is limited here: " << run.err();
  EXPECT_EQ(exit_code, 2) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("the command and the variables of --env take 45002"));
  EXPECT_EQ(std::ranges::count(run.err(), '\n'), 1) << run.err();
}

TEST(LaunchOutput, GivesTwoLaunchesAtOnceTheirOwnDirectories) {
  ScratchDirectory scratch;
  const std::string go = scratch / "go";
  const std::vector<std::string> arguments = {"--rdzv-id",
                                              "same",
                                              "--log-dir",
                                              scratch / "logs",
                                              "sh",
                                              "-c",
                                              "echo ready; while ! [ -e " + go + " ]; do sleep 0.02; done"};
  LaunchRun one(arguments);
  LaunchRun other(arguments);
  ASSERT_TRUE(one.printed("node0:0: ready"));
  ASSERT_TRUE(other.printed("node0:0: ready"));
  std::ofstream(go) << "";
  EXPECT_EQ(one.exit_code(), 0) << one.err();
  EXPECT_EQ(other.exit_code(), 0) << other.err();
  int reports = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch / "logs"))
    reports += std::filesystem::exists(entry.path() / "report.json") ? 1 : 0;
  EXPECT_EQ(reports, 2);
}

// The text after `text` on an agent's command line, which every user can read.
std::string word_after(const LaunchRun& run, const std::string& text) {
  const auto words = read_file(fmt::format("/proc/{}/cmdline", run.agents().at(0)), 1 << 16).value_or("");
  const std::size_t at = words.find(text);
  return at == std::string::npos ? "" : std::string(words.c_str() + at + text.size());
}

std::uint16_t control_port(const LaunchRun& run) {
  return static_cast<std::uint16_t>(std::atoi(word_after(run, "127.0.0.1:").c_str()));
}

UniqueFd connect_to(std::uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

TEST(LaunchControlPort, RefusesAClientWithoutTheKey) {
  LaunchRun run({"--control", "tcp", "sh", "-c", "echo ready; sleep 1000"});
  ASSERT_TRUE(run.printed("node0:0: ready"));
  const std::string identity = word_after(run, std::string("--identity\0", 11));
  ASSERT_THAT(identity, HasSubstr("/default/0/1"));
  asio::io_context context;
  std::optional<Expected<std::shared_ptr<net::Connection>>> result;
  asio::co_spawn(
      context,
      net::connect("127.0.0.1", control_port(run), identity, net::make_key(), std::chrono::seconds(10)),
      [&](const std::exception_ptr&, Expected<std::shared_ptr<net::Connection>> connection) {
        result = std::move(connection);
      });
  context.run();
  ASSERT_TRUE(result);
  EXPECT_FALSE(*result) << "connected with a made-up key";
  run.signal(SIGINT);
  EXPECT_EQ(run.exit_code(), 130);
}

TEST(LaunchControlPort, IsNotHarmedByStrangers) {
  ScratchDirectory scratch;
  const std::string go = scratch / "go";
  LaunchRun run({"--control", "tcp", "--nodes", "2", "--silence-limit", "20", "sh", "-c",
                 "echo ready; while ! [ -e " + go + " ]; do sleep 0.02; done; echo done"});
  ASSERT_TRUE(run.printed("node0:0: ready"));
  ASSERT_TRUE(run.printed("node1:1: ready"));
  const std::uint16_t port = control_port(run);
  ASSERT_NE(port, 0);
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 1000; ++i) {
    idle.push_back(connect_to(port));
    ASSERT_TRUE(idle.back()) << i;
  }
  const UniqueFd garbage = connect_to(port);
  const std::string noise(100'000, '\x16');
  send(garbage.get(), noise.data(), noise.size(), MSG_NOSIGNAL);
  // The launcher disconnects it after a TLS alert.
  char buffer[256];
  EXPECT_TRUE(eventually(
      [&] { return recv(garbage.get(), buffer, sizeof buffer, MSG_DONTWAIT) == 0 || errno == ECONNRESET; }));
  std::ofstream(go) << "";
  EXPECT_EQ(run.exit_code(), 0) << run.err();
}

// Each rank writes its job's name into its store, and reads the other rank's.
constexpr const char* kNameInStore = R"(
import os, socket, struct
blob = lambda text: struct.pack('<Q', len(text)) + text
store = socket.create_connection((os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])), 30)
job, rank = os.environ['MUSTER_JOB_ID'].encode(), int(os.environ['RANK'])
own, other = b'job%d' % rank, b'job%d' % (1 - rank)
store.sendall(bytes([0]) + struct.pack('<I', 0x3C85F7CE) + bytes([1]) + blob(own) + blob(job))
store.sendall(bytes([6]) + struct.pack('<Q', 1) + blob(other))
assert store.recv(1) == bytes([0])
store.sendall(bytes([3]) + blob(other))
found = store.makefile('rb').read(8 + len(job))
assert found == blob(job), found
)";

TEST(LaunchSideBySide, AHundredJobsOfTwoRanksDoNotMeetEachOther) {
  std::vector<std::unique_ptr<LaunchRun>> runs;
  for (int i = 0; i < 100; ++i) {
    runs.push_back(std::make_unique<LaunchRun>(std::vector<std::string>{"--nodes", "2", "--max-restarts", "0",
                                                                        "--silence-limit", "60", "python3",
                                                                        "-S", "-E", "-c", kNameInStore}));
  }
  for (const auto& run : runs) EXPECT_EQ(run->exit_code(), 0) << run->err();
}

}  // namespace
}  // namespace muster
