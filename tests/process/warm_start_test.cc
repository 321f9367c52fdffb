// Executed ranks and ranks forked from a template: the same tests for both, and starts without a template.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/process/agent_process_fixture.h"
#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

using Words = std::vector<std::string>;

class WarmStart : public AgentProcess {
 protected:
  // WORDS: warm_rank's actions before and after the fork.
  wire::JobSpec rank_job(const Words& words, wire::Warm warm = wire::Warm::kAuto) {
    wire::JobSpec job = this->job("");
    job.command = {WARM_RANK};
    job.command.insert(job.command.end(), words.begin(), words.end());
    job.warm = warm;
    return job;
  }
  static wire::WorkersStarted how(const TestLauncher& launcher) {
    const auto started = launcher.all<wire::WorkersStarted>();
    return started.empty() ? wire::WorkersStarted{} : started.back();
  }
  // The pids of `count` ranks, by rank.
  static std::vector<wire::WorkerExited> wait_for_ends(TestLauncher& launcher, std::size_t count) {
    std::vector<wire::WorkerExited> ends(count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto end = launcher.wait_for<wire::WorkerExited>();
      if (end) ends.at(static_cast<std::size_t>(end->rank.value())) = *end;
    }
    EXPECT_TRUE(launcher.wait_for<wire::WorkersGone>());
    return ends;
  }
  std::vector<pid_t> templates() {
    std::vector<pid_t> found = processes();
    std::erase_if(found, [](pid_t pid) {
      return read_file(fmt::format("/proc/{}/comm", pid), 64).value_or("") != "muster-template\n";
    });
    return found;
  }
  std::string template_output() {
    return read_file(scratch_ / "logs/template.node0.log", 1 << 20).value_or("(none)");
  }
  // In this order, so that this agent's guardian does not end processes of the job's next agent.
  static void leave(TestLauncher& launcher) {
    launcher.send(wire::Leave{});
    EXPECT_EQ(launcher.agent_exit(), 0);
  }
  static void wait_for_lines(TestLauncher& launcher, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      while (launcher.output(rank, 1).empty()) ASSERT_TRUE(launcher.wait_for<wire::Output>());
    }
  }
};

// Every test here runs with executed ranks and with forked ones, with the same result.
class Ranks : public WarmStart, public testing::WithParamInterface<bool> {
 protected:
  bool forked() const { return GetParam(); }
  // Starts the ranks, and checks that they were executed or forked as wanted.
  std::vector<std::int32_t> start(TestLauncher& launcher, const Words& words, std::int32_t count,
                                  const char* program = WARM_RANK) {
    wire::JobSpec job = rank_job(words, forked() ? wire::Warm::kAuto : wire::Warm::kOff);
    job.command[0] = program;
    launcher.welcome(job);
    auto pids = launcher.start(count);
    EXPECT_EQ(how(launcher).warm_count, forked() ? count : 0) << how(launcher).executed_because;
    EXPECT_EQ(how(launcher).executed_because, "");
    return pids;
  }
};
INSTANTIATE_TEST_SUITE_P(Started, Ranks, testing::Bool(),
                         [](const auto& info) { return info.param ? "Forked" : "Executed"; });

TEST_P(Ranks, EndWithTheirOwnExitCodes) {
  TestLauncher launcher({});
  const auto pids = start(launcher, {"--", "rank_code"}, 3);
  const auto ends = wait_for_ends(launcher, 3);
  for (int rank = 0; rank < 3; ++rank) {
    const auto& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_EQ(end.exit_code, rank);
    EXPECT_EQ(end.signal, 0);
    EXPECT_EQ(end.pid, pids[static_cast<std::size_t>(rank)]);
  }
}

// The library "user" needs "deep". The one that is called libtorch_cpu.so is not LibTorch's.
TEST_P(Ranks, RunAllDestructorsExceptLibTorchsIfTheyAreForked) {
  TestLauncher launcher({});
  start(launcher, {scratch_ / "ends"}, 1, WARM_END_RANK);
  EXPECT_EQ(wait_for_ends(launcher, 1)[0].exit_code, 7);
  EXPECT_THAT(log("rank_0/stdout.log"), AllOf(HasSubstr("cout\n"), HasSubstr("printf\n")));
  EXPECT_EQ(read_file(scratch_ / "ends.library", 100).value_or(""), "not flushed");
  std::string ends = read_file(scratch_ / "ends", 1 << 10).value_or("");
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
  EXPECT_EQ(ends.find("torch") == std::string::npos, forked()) << ends;
#endif
  for (const char* text : {"torch: static object\n", "torch: function\n"})
    if (const auto at = ends.find(text); at != std::string::npos) ends.erase(at, std::strlen(text));
  EXPECT_EQ(ends,
            "atexit\nlocal static object\nstatic object\n"
            "user: function\nuser: static object\ndeep: function\ndeep: static object\n");
}

TEST_P(Ranks, EndWithTheCodeOfADestructorThatCallsExitAgain) {
  TestLauncher launcher({});
  start(launcher, {scratch_ / "ends", "again"}, 1, WARM_END_RANK);
  EXPECT_EQ(wait_for_ends(launcher, 1)[0].exit_code, 8);
  EXPECT_THAT(log("rank_0/stdout.log"), AllOf(HasSubstr("cout\n"), HasSubstr("printf\n")));
  const std::string ends = read_file(scratch_ / "ends", 1 << 10).value_or("");
  EXPECT_THAT(ends, HasSubstr("deep: static object\n"));
  EXPECT_EQ(ends.find("user: function\n"), ends.rfind("user: function\n")) << ends;
}

TEST_P(Ranks, EndWithTheSignalThatKilledThem) {
  TestLauncher launcher({});
  start(launcher, {"--", "kill"}, 2);
  for (const auto& end : wait_for_ends(launcher, 2)) EXPECT_EQ(end.signal, SIGKILL);
}

TEST_P(Ranks, AreChildrenOfTheAgentInGroupsOfTheirOwnUnderTheirProgramsName) {
  TestLauncher launcher({});
  start(launcher, {"--", "place"}, 2);
  wait_for_ends(launcher, 2);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(log(fmt::format("rank_{}/stdout.log", rank)),
              fmt::format("parent {} own group 1 death signal 9 name warm_rank rank {} directory /\n",
                          launcher.agent_pid(), rank));
  }
}

TEST_P(Ranks, KeepWhatTheProgramDidToItselfBeforeInit) {
  TestLauncher launcher({});
  const auto pids =
      start(launcher, {"handler", "chdir=" + scratch_.path().string(), "--", "place", "wait"}, 2);
  wait_for_lines(launcher, 2);
  EXPECT_THAT(launcher.output(0, 1), HasSubstr("directory " + scratch_.path().string()));
  launcher.send(wire::StopWorkers{SIGTERM, 10'000'000'000});
  for (const auto& end : wait_for_ends(launcher, 2)) EXPECT_EQ(end.exit_code, 42);
}

TEST_P(Ranks, ReadFilesThatWereOpenBeforeInitEachFromTheSamePlace) {
  std::ofstream(scratch_ / "list") << "1\n2\n3\n4\n";
  TestLauncher launcher({});
  start(launcher, {"list=" + scratch_ / "list", "--", "line", "line"}, 3);
  wait_for_ends(launcher, 3);
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(log(fmt::format("rank_{}/stdout.log", rank)), "line 2\nline 3\n");
}

TEST_P(Ranks, DieWithTheirAgent) {
  TestLauncher launcher({.environment = {mark()}});
  start(launcher, {"--", "ready", "wait"}, 4);
  wait_for_lines(launcher, 4);
  EXPECT_EQ(processes().size(), forked() ? 5U : 4U);
  kill(launcher.agent_pid(), SIGKILL);
  EXPECT_EQ(launcher.agent_exit(), 128 + SIGKILL);
  EXPECT_TRUE(eventually([this] { return processes().empty(); }, std::chrono::seconds(5)));
  EXPECT_TRUE(eventually([this] { return processes_with(mark()).empty(); }));
}

// The last rank may not have run yet.
TEST_P(Ranks, AreKilledAlsoWhenTheyWereStartedAMomentAgo) {
  TestLauncher launcher({});
  start(launcher, {"--", "wait"}, 4);
  launcher.send(wire::StopWorkers{SIGKILL, 0});
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  for (std::uint64_t attempt = 2; attempt <= 10; ++attempt) {
    launcher.set_attempt(Attempt(attempt));
    launcher.prepare(4);
    ASSERT_TRUE(launcher.wait_for<wire::AttemptPrepared>());
    launcher.send(wire::StartWorkers{"127.0.0.1", 29500, std::nullopt});
    launcher.send(wire::StopWorkers{SIGKILL, 0});
    ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>()) << attempt;
  }
}

TEST_P(Ranks, AreAllGoneWhenTheAgentLeaves) {
  TestLauncher launcher({});
  start(launcher, {"--", "ready", "wait"}, 2);
  wait_for_lines(launcher, 2);
  launcher.send(wire::Leave{});
  EXPECT_EQ(launcher.agent_exit(), 0);
  EXPECT_THAT(processes(), IsEmpty());
}

TEST_P(Ranks, LeaveACoreFileWhereCoresAreFiles) {
  if (!read_file("/proc/sys/kernel/core_pattern", 256).value_or("|").starts_with("core"))
    GTEST_SKIP() << "this machine hands cores to a program";
  TestLauncher launcher({.in_child =
                             [] {
                               const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
                               setrlimit(RLIMIT_CORE, &unlimited);
                             },
                         // Even with a sanitizer, the kernel handles the signal.
                         .environment = {"ASAN_OPTIONS=handle_segv=0:disable_coredump=0"}});
  start(launcher, {"chdir=" + scratch_.path().string(), "--", "segv"}, 1);
  const auto ends = wait_for_ends(launcher, 1);
  EXPECT_EQ(ends[0].signal, SIGSEGV);
  EXPECT_TRUE(ends[0].core_dumped);
  std::vector<std::string> cores;
  for (const auto& file : std::filesystem::directory_iterator(scratch_.path())) {
    const std::string name = file.path().filename();
    if (name.starts_with("core") && file.file_size() > 0) cores.push_back(name);
  }
  EXPECT_EQ(cores.size(), 1U);
}

TEST_P(Ranks, CanBeDebugged) {
  if (system("command -v gdb >/dev/null") != 0) GTEST_SKIP() << "gdb is missing";
  TestLauncher launcher({});
  const auto pids = start(launcher, {"--", "ready", "wait"}, 1);
  wait_for_lines(launcher, 1);
  // Not `call`: gdb cannot write the registers of a processor that it does not know.
  const std::string command =
      fmt::format("gdb -nx -batch -p {} -ex 'info inferiors' > {} 2>&1", pids.at(0), scratch_ / "gdb");
  ASSERT_EQ(system(command.c_str()), 0);
  EXPECT_THAT(read_file(scratch_ / "gdb", 1 << 20).value_or(""),
              HasSubstr(fmt::format("process {} ", pids[0])));
}

TEST_F(WarmStart, ForkedRanksHaveTheEnvironmentOfExecutedOnes) {
  std::set<std::string> environments[2];
  for (const bool forked : {false, true}) {
    TestLauncher launcher({.environment = {"RANK=77", "OWN=value", "OMP_NUM_THREADS=3"}});
    launcher.welcome(rank_job({"--", "environment"}, forked ? wire::Warm::kOn : wire::Warm::kOff));
    launcher.start(2);
    EXPECT_EQ(how(launcher).warm_count, forked ? 2 : 0) << how(launcher).executed_because;
    wait_for_ends(launcher, 2);
    leave(launcher);
    std::istringstream lines(log("rank_1/stdout.log"));
    for (std::string line; std::getline(lines, line);) {
      // Some variables name files in the agent's own directory.
      const auto named = [&](const char* name) { return line.starts_with(name); };
      const bool of_agent =
          named("MUSTER_SOCKET=") || named("TORCHELASTIC_ERROR_FILE=") || named("PYTHONPATH=");
      environments[forked].insert(of_agent ? line.substr(0, line.find('=')) : line);
    }
    std::filesystem::remove_all(scratch_ / "logs");
  }
  EXPECT_EQ(environments[1], environments[0]);
  EXPECT_TRUE(environments[1].contains("RANK=1"));
}

TEST_F(WarmStart, TheTemplateIsKeptOverAttemptsAndPrintsOnce) {
  TestLauncher launcher({});
  launcher.welcome(rank_job({"print", "--", "ready", "wait"}));
  pid_t first = 0;
  for (const std::uint64_t attempt : {1U, 2U, 3U}) {
    launcher.set_attempt(Attempt(attempt));
    ASSERT_EQ(launcher.start(2).size(), 2U);
    EXPECT_EQ(how(launcher).warm_count, 2);
    wait_for_lines(launcher, 2);  // before that, a rank has the template's name
    const auto found = templates();
    ASSERT_EQ(found.size(), 1U);
    if (attempt == 1) first = found[0];
    EXPECT_EQ(found[0], first);
    launcher.send(wire::StopWorkers{SIGTERM, 1'000'000'000});
    wait_for_ends(launcher, 2);
    launcher.seen.clear();
  }
  EXPECT_EQ(template_output(), "printed before init\n");
  EXPECT_EQ(log("rank_0/stdout.log"), "ready\n");
}

TEST_F(WarmStart, AnAgentThatStandsByHasLoadedTheProgramBeforeItsFirstAttempt) {
  TestLauncher launcher({});
  launcher.welcome(rank_job({"print", "--", "ready", "wait"}));
  launcher.send(wire::StandBy{2});
  ASSERT_TRUE(eventually([&] { return templates().size() == 1; }));
  const pid_t loaded = templates()[0];
  launcher.set_attempt(Attempt(2));
  ASSERT_EQ(launcher.start(2).size(), 2U);
  EXPECT_EQ(how(launcher).warm_count, 2) << how(launcher).executed_because;
  wait_for_lines(launcher, 2);
  EXPECT_THAT(templates(), ElementsAre(loaded));
  EXPECT_EQ(template_output(), "printed before init\n");
}

TEST_F(WarmStart, AnAgentThatStandsByLoadsNothingThatNobodyWants) {
  TestLauncher launcher({});
  launcher.welcome(rank_job({"print", "--", "rank_code"}, wire::Warm::kOff));
  launcher.send(wire::StandBy{2});
  ASSERT_EQ(launcher.start(2).size(), 2U);
  EXPECT_EQ(how(launcher).warm_count, 0);
  wait_for_ends(launcher, 2);
  EXPECT_EQ(template_output(), "(none)");
}

// The whole way: a spare's template is ready before the fault, and its ranks are forked from it.
TEST_F(WarmStart, ASpareNodeIsWarmBeforeItIsNeeded) {
  LaunchRun run({"--nodes", "2", "--spare-nodes", "1", "--gpus-per-node", "2", WARM_RANK, "print", "--",
                 "ready", "wait"});
  for (const char* line : {"node0:0: ready", "node0:1: ready", "node1:2: ready", "node1:3: ready"})
    ASSERT_TRUE(run.printed(line)) << run.err();
  const auto spare_output = [&] {
    return read_file(run.job_directory() + "/template.node2.log", 1 << 20).value_or("");
  };
  const std::string agent_log = run.job_directory() + "/agent.node2.log";
  const auto ready = [&] {
    return read_file(agent_log, 1 << 20).value_or("").find(" is ready") != std::string::npos;
  };
  ASSERT_TRUE(eventually(ready)) << read_file(agent_log, 1 << 20).value_or("");
  const pid_t agent = run.agent_of(0);
  ASSERT_NE(agent, 0);
  kill(agent, SIGKILL);
  EXPECT_TRUE(run.printed("node2:2: ready") && run.printed("node2:3: ready")) << run.err();
  EXPECT_EQ(spare_output(), "printed before init\n") << "it was loaded once";
  run.signal(SIGINT);
  EXPECT_EQ(run.exit_code(), 130);
  const std::string events = read_file(run.job_directory() + "/events.jsonl", 1 << 20).value_or("");
  EXPECT_THAT(events, HasSubstr(R"("node":2,"workers":2,"text":"2 workers, 2 of them forked")"));
}

TEST_F(WarmStart, ATemplateThatIsKilledBetweenAttemptsIsReplaced) {
  TestLauncher launcher({});
  launcher.welcome(rank_job({"--", "rank_code"}));
  launcher.start(2);
  wait_for_ends(launcher, 2);
  const auto old = templates();
  ASSERT_EQ(old.size(), 1U);
  kill(old[0], SIGKILL);
  ASSERT_TRUE(eventually([&] { return !is_running(old[0]); }));
  launcher.set_attempt(Attempt(2));
  EXPECT_EQ(launcher.start(2).size(), 2U);
  EXPECT_EQ(how(launcher).warm_count, 2) << how(launcher).executed_because;
  EXPECT_EQ(wait_for_ends(launcher, 2)[1].exit_code, 1);
}

TEST_F(WarmStart, WhenTheTemplateIsKilledBeforeTheStartTheRanksAreExecuted) {
  TestLauncher launcher({});
  launcher.welcome(rank_job({"--", "rank_code"}));
  launcher.prepare(2);
  ASSERT_TRUE(launcher.wait_for<wire::AttemptPrepared>());
  ASSERT_TRUE(eventually([this] { return templates().size() == 1; }));
  const pid_t killed = templates()[0];
  kill(killed, SIGKILL);
  ASSERT_TRUE(eventually([&] { return !is_running(killed); }));
  launcher.send(wire::StartWorkers{"127.0.0.1", 29500, std::nullopt});
  ASSERT_TRUE(launcher.wait_for<wire::WorkersStarted>());
  EXPECT_EQ(how(launcher).warm_count, 0);
  EXPECT_EQ(how(launcher).executed_because, "the template was killed by signal 9");
  EXPECT_EQ(wait_for_ends(launcher, 2)[1].exit_code, 1);
}

TEST_F(WarmStart, WhenTheTemplateDoesNotAnswerTheRanksAreExecutedAndNoneRunsTwice) {
  TestLauncher launcher({});
  launcher.welcome(rank_job({"--", "ready", "wait"}));
  launcher.prepare(2);
  ASSERT_TRUE(launcher.wait_for<wire::AttemptPrepared>());
  ASSERT_TRUE(eventually([this] { return templates().size() == 1; }));
  kill(templates()[0], SIGSTOP);
  launcher.send(wire::StartWorkers{"127.0.0.1", 29500, std::nullopt});
  ASSERT_TRUE(launcher.wait_for<wire::WorkersStarted>());
  EXPECT_EQ(how(launcher).warm_count, 0);
  EXPECT_THAT(how(launcher).executed_because, HasSubstr("did not fork"));
  wait_for_lines(launcher, 2);
  EXPECT_EQ(processes().size(), 2U);
}

TEST_F(WarmStart, ATemplateThatMayNotForkSaysWhyAndIsNotTriedAgain) {
  std::ofstream(scratch_ / "file") << "x";
  const std::pair<std::string, std::string> cases[] = {{"thread", "it has 2 threads"},
                                                       {"socket", "it has socket:["},
                                                       {"shared", "it shares writable memory: /dev/zero"},
                                                       {"unlinked", "deleted"},
                                                       {"lock=" + scratch_ / "file", "it holds a lock on"}};
  for (const auto& [before, reason] : cases) {
    const std::string errors = scratch_ / ("agent." + before.substr(0, 4));
    TestLauncher launcher({.error_file = errors});
    launcher.welcome(rank_job({before, "--", "rank_code"}));
    for (const std::uint64_t attempt : {1U, 2U}) {
      launcher.set_attempt(Attempt(attempt));
      ASSERT_EQ(launcher.start(2).size(), 2U);
      EXPECT_EQ(how(launcher).warm_count, 0) << before;
      EXPECT_THAT(how(launcher).executed_because, HasSubstr(reason));
      wait_for_ends(launcher, 2);
    }
    leave(launcher);
    const std::string said = read_file(errors, 1 << 20).value_or("");
    const std::string loads = "loads the program";
    EXPECT_EQ(said.find(loads), said.rfind(loads)) << said;
  }
}

TEST_F(WarmStart, AProgramWithoutTheNoteIsExecutedOnceForEachRank) {
  TestLauncher launcher({});
  wire::JobSpec job = this->job("echo x >> " + scratch_ / "runs");
  job.warm = wire::Warm::kAuto;
  launcher.welcome(job);
  launcher.start(2);
  wait_for_ends(launcher, 2);
  EXPECT_EQ(read_file(scratch_ / "runs", 100).value_or(""), "x\nx\n");
  EXPECT_EQ(how(launcher).executed_because, "");
}

TEST_F(WarmStart, AProgramThatNeverCallsInitRunsOnceMoreAndSaysSo) {
  TestLauncher launcher({});
  wire::JobSpec job = this->job("echo x >> " + scratch_ / "runs");
  job.warm = wire::Warm::kOn;
  launcher.welcome(job);
  launcher.start(2);
  wait_for_ends(launcher, 2);
  EXPECT_EQ(read_file(scratch_ / "runs", 100).value_or(""), "x\nx\nx\n");
  EXPECT_THAT(how(launcher).executed_because, StartsWith("the program exited with code 0 before init(); /"));
}

TEST_F(WarmStart, AProgramBehindAWrapperThatStaysIsExecuted) {
  TestLauncher launcher({});
  wire::JobSpec job = this->job(WARM_RANK " -- ready; true");
  job.warm = wire::Warm::kOn;
  launcher.welcome(job);
  launcher.start(2);
  EXPECT_EQ(how(launcher).executed_because, "init() was called in a child of the program");
  wait_for_ends(launcher, 2);
  EXPECT_EQ(log("rank_1/stdout.log"), "ready\n");
  EXPECT_EQ(template_output(), "");
}

TEST_F(WarmStart, AProgramBehindAWrapperThatExecsIsForked) {
  TestLauncher launcher({});
  wire::JobSpec job = this->job("exec " WARM_RANK " -- ready");
  job.warm = wire::Warm::kOn;
  launcher.welcome(job);
  launcher.start(2);
  EXPECT_EQ(how(launcher).warm_count, 2) << how(launcher).executed_because;
  wait_for_ends(launcher, 2);
}

TEST_F(WarmStart, AChangedProgramIsLoadedAnew) {
  const std::string program = scratch_ / "program";
  std::filesystem::copy_file(WARM_RANK, program);
  TestLauncher launcher({});
  wire::JobSpec job = rank_job({"--", "rank_code"});
  job.command[0] = program;
  launcher.welcome(job);
  launcher.start(2);
  wait_for_ends(launcher, 2);
  const auto old = templates();
  std::filesystem::copy_file(program, program + ".new");
  std::filesystem::rename(program + ".new", program);
  launcher.set_attempt(Attempt(2));
  launcher.start(2);
  EXPECT_EQ(how(launcher).warm_count, 2);
  wait_for_ends(launcher, 2);
  EXPECT_NE(templates(), old);
}

TEST_F(WarmStart, AProcessThatTakesItselfForATemplateDoesNotTrain) {
  const std::string command = fmt::format("MUSTER_TEMPLATE_FD=99 {} -- ready", WARM_RANK);
  FILE* const pipe = popen(command.c_str(), "r");
  char text[64] = {};
  EXPECT_EQ(fread(text, 1, sizeof text - 1, pipe), 0U) << text;
  pclose(pipe);
}

// Sweeps of `warm_rank BEFORE -- ... {x} ...`, one trial after the other.
class WarmSweep : public testing::Test {
 protected:
  Words sweep_of(const std::string& before, const Words& values) const {
    Words words{"sweep",      "run",  "--sweep-dir", directory,
                "--metric",   "loss", "--search",    "grid",
                "--parallel", "1",    "--space",     fmt::format("x=choice:{}", fmt::join(values, ":"))};
    words.insert(words.end(), {"--", WARM_RANK, before, "--", "say=MUSTER_METRIC loss=1", "say=x is {x}",
                               "{x}", "place", "environment"});
    return words;
  }
  // The content of the files of this name, one after the other in the order of the trials.
  std::string all(const std::string& name) const {
    std::map<std::string, std::string> texts;
    for (const auto& file : std::filesystem::recursive_directory_iterator(directory + "/trials"))
      if (file.path().filename() == name) texts[file.path()] = read_file(file.path(), 1 << 20).value_or("");
    std::string text;
    for (const auto& [path, content] : texts) text += content;
    return text;
  }
  static std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  }

  ScratchDirectory scratch;
  const std::string directory = scratch / "sweep";
};

TEST_F(WarmSweep, ForksAllTrialsFromOneTemplateEachWithItsOwnArgumentsAndVariables) {
  LaunchRun run(sweep_of("arguments", {"1", "2", "3"}));
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  const std::string agent = all("agent.node0.log");
  EXPECT_EQ(count(agent, "loads the program"), 1U) << agent;
  EXPECT_EQ(count(agent, "1 of 1 workers were forked"), 3U) << agent;
  const std::string said = all("stdout.log");
  for (const char* x : {"1", "2", "3"}) {
    EXPECT_EQ(count(said, fmt::format("x is {}\n", x)), 1U) << said;
    EXPECT_EQ(count(said, fmt::format("MUSTER_PARAM_X={}\n", x)), 1U) << said;
  }
  EXPECT_EQ(count(said, "own group 1 death signal 9"), 3U) << said;
  expect_nothing_left(run);
}

TEST_F(WarmSweep, ExecutesNoTrialWithAnothersArguments) {
  LaunchRun run(sweep_of("none", {"1", "2", "3"}));  // the program takes no arguments after init()
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(count(all("agent.node0.log"), "loads the program"), 3U) << all("agent.node0.log");
  for (const char* x : {"1", "2", "3"})
    EXPECT_EQ(count(all("stdout.log"), fmt::format("x is {}\n", x)), 1U) << all("stdout.log");
}

TEST_F(WarmSweep, LoadsTheProgramAgainIfTheTemplateWasKilledBetweenTrials) {
  LaunchRun run(sweep_of("arguments", {"1", "kill-template", "3"}));
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(count(all("agent.node0.log"), "loads the program"), 2U) << all("agent.node0.log");
  EXPECT_EQ(count(all("stdout.log"), "x is 3\n"), 1U);
}

// A child of a forked rank has the environment that the template had: the first trial's.
TEST_F(WarmSweep, TheGuardianEndsWhatAForkedRankOfALaterTrialLeaves) {
  LaunchRun run(sweep_of("arguments", {"1", "orphan"}));
  ASSERT_TRUE(eventually([&] {
    return std::filesystem::exists(directory + "/trials/0001") && all("stdout.log").contains(" orphan ");
  }));
  std::istringstream said(all("stdout.log").substr(all("stdout.log").find("\nagent ") + 7));
  pid_t agent = 0, orphan = 0;
  std::string word;
  said >> agent >> word >> orphan;
  ASSERT_GT(agent, 1);
  ASSERT_EQ(kill(agent, SIGKILL), 0);
  EXPECT_TRUE(eventually([orphan] { return kill(orphan, 0) != 0; })) << orphan;
}

}  // namespace
}  // namespace muster
