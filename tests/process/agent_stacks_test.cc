// A real agent that collects its workers' stacks and passes on notices.
#include <csignal>
#include <fstream>
#include <regex>
#include <sys/syscall.h>

#include "common/base/clock.h"
#include "tests/process/agent_process_fixture.h"
#include "tests/process/py_spy.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr Duration kLimit = std::chrono::seconds(10);  // the agent waits 1.5 s for programs

// The example of docs/protocol.md, followed by a wait for ever; rank 1 ignores requests.
std::string python_worker() {
  const std::string document = read_file(PROTOCOL_DOCUMENT, 1 << 20).value_or("");
  std::smatch found;
  EXPECT_TRUE(std::regex_search(document, found, std::regex("```python\n([^`]*)for step in")));
  return found[1].str() + R"(
def wait_for_ever():
    print("waiting", flush=True)
    threading.Event().wait()
wait_for_ever()
)";
}

bool waits_in(std::int32_t pid, long call) {
  return read_file(fmt::format("/proc/{}/syscall", pid), 4096)
      .value_or("")
      .starts_with(fmt::format("{} ", call));
}

bool is_stopped(std::int32_t pid) {
  return read_file(fmt::format("/proc/{}/stat", pid), 4096).value_or("").find(") T ") != std::string::npos;
}

class AgentStacks : public AgentProcess {
 protected:
  void start(TestLauncher& launcher, const std::vector<std::string>& command,
             const std::map<std::string, std::string>& environment = {}) {
    wire::JobSpec job = this->job("");
    job.command = command;
    job.environment.insert(environment.begin(), environment.end());
    launcher.welcome(job);
    pids = launcher.start(2);
    ASSERT_EQ(pids.size(), 2U);
  }
  std::map<std::int32_t, std::string> dump(TestLauncher& launcher) {
    const TimePoint asked = Clock::now();
    launcher.send(wire::DumpStacks{});
    std::map<std::int32_t, std::string> stacks;
    for (std::size_t i = 0; i < pids.size(); ++i) {
      const auto answer = launcher.wait_for<wire::WorkerStacks>();
      if (!answer) return {};
      stacks[answer->rank.value()] = answer->text;
      EXPECT_EQ(log("rank_" + std::to_string(answer->rank.value()) + "/stacks.txt"), answer->text);
    }
    EXPECT_LT(Clock::now() - asked, kLimit);
    return stacks;
  }
  std::vector<std::int32_t> pids;
};

TEST_F(AgentStacks, AreTheKernelsViewOfAProgramThatCannotWriteThem) {
  TestLauncher launcher({});
  start(launcher, {"/bin/sleep", "1000"}, {{"PATH", scratch_.path()}});
  for (const std::int32_t pid : pids)
    ASSERT_TRUE(eventually([&] { return waits_in(pid, SYS_clock_nanosleep); }));
  const auto stacks = dump(launcher);
  for (const int rank : {0, 1})
    EXPECT_THAT(
        stacks.at(rank),
        AllOf(HasSubstr("cannot write its own stacks, and eu-stack is not installed to do it: it is in "
                        "Debian's package elfutils"),
              ContainsRegex("thread [0-9]+ \\(sleep\\): sleeps, system call .*nanosleep")));
}

TEST_F(AgentStacks, AreWrittenByAScriptThatAnswersAndTakenFromTheKernelForOneThatIsStopped) {
  std::ofstream(scratch_ / "worker.py") << python_worker();
  TestLauncher launcher({});
  start(launcher, {"python3", scratch_ / "worker.py"});
  std::set<std::int32_t> greeted;
  while (greeted.size() < 2) {
    const auto said = launcher.wait_for<wire::WorkerReported>();
    ASSERT_TRUE(said);
    if (said->kind == wire::ReportKind::kHello) greeted.insert(said->rank.value());
  }
  ASSERT_TRUE(eventually([&] { return log("rank_0/stdout.log") == "waiting\n"; }));
  kill(pids[1], SIGSTOP);
  ASSERT_TRUE(eventually([&] { return is_stopped(pids[1]); }));
  for (int time = 0; time < 2; ++time) {
    const auto stacks = dump(launcher);
    EXPECT_THAT(stacks.at(0), HasSubstr("wait_for_ever"));
    EXPECT_THAT(stacks.at(1), AllOf(HasSubstr("did not answer"), HasSubstr("is stopped")));
  }
}

TEST_F(AgentStacks, AreThoseThatEuStackShowsOfAProgram) {
  if (std::system("eu-stack --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "eu-stack is not installed";
  TestLauncher launcher({});
  start(launcher, {"sleep", "1000"});
  for (const std::int32_t pid : pids)
    ASSERT_TRUE(eventually([&] { return waits_in(pid, SYS_clock_nanosleep); }));
  kill(pids[1], SIGSTOP);
  ASSERT_TRUE(eventually([&] { return is_stopped(pids[1]); }));
  const auto stacks = dump(launcher);
  EXPECT_THAT(stacks.at(0), ContainsRegex("TID [0-9]+:\n#0 .*nanosleep - .*/libc\\.so"));
  EXPECT_THAT(stacks.at(1), AllOf(HasSubstr("the process is stopped"), HasSubstr("is stopped")));
  EXPECT_FALSE(is_stopped(pids[0]));
  EXPECT_TRUE(is_stopped(pids[1]));
}

// The fake eu-stack stops the process, as a tracer does, and hangs.
TEST_F(AgentStacks, LetAProcessGoOnWhoseEuStackIsTooSlow) {
  std::ofstream(scratch_ / "eu-stack") << "#!/bin/sh\nkill -STOP $3\nexec /bin/sleep 1000\n";
  std::filesystem::permissions(scratch_ / "eu-stack", std::filesystem::perms::owner_all);
  TestLauncher launcher({});
  start(launcher, {"/bin/sleep", "1000"}, {{"PATH", scratch_.path()}});
  for (const std::int32_t pid : pids)
    ASSERT_TRUE(eventually([&] { return waits_in(pid, SYS_clock_nanosleep); }));
  const auto stacks = dump(launcher);
  for (const int rank : {0, 1}) EXPECT_THAT(stacks.at(rank), HasSubstr("eu-stack did not answer"));
  for (const std::int32_t pid : pids) EXPECT_TRUE(eventually([&] { return !is_stopped(pid); }));
}

constexpr const char* kWaitingScript = R"(
import threading
def wait_for_ever():
    print("waiting", flush=True)
    threading.Event().wait()
wait_for_ever()
)";

// A Python in a folder of its own, and a PATH with only that folder.
TEST_F(AgentStacks, SayThatPySpyWouldShowThoseOfAScript) {
  const std::string python = link_to_python(scratch_.path());
  TestLauncher launcher({});
  start(launcher, {python, "-c", kWaitingScript}, {{"PATH", scratch_.path()}});
  for (const char* rank : {"rank_0", "rank_1"})
    ASSERT_TRUE(eventually([&] { return log(fmt::format("{}/stdout.log", rank)) == "waiting\n"; }));
  for (const auto& [rank, text] : dump(launcher))
    EXPECT_THAT(
        text,
        HasSubstr("cannot write its own stacks, and py-spy is not installed to do it: pip install py-spy"));
}

TEST_F(AgentStacks, AreThoseThatPySpyShowsOfAScript) {
  const auto path = path_with_py_spy();
  if (!path) GTEST_SKIP() << "py-spy is not installed, or may not look here";
  std::ofstream(scratch_ / "worker.py") << kWaitingScript;
  TestLauncher launcher({});
  start(launcher, {"python3", "-u", scratch_ / "worker.py"}, {{"PATH", *path}});
  for (const char* rank : {"rank_0", "rank_1"})
    ASSERT_TRUE(eventually([&] { return log(fmt::format("{}/stdout.log", rank)) == "waiting\n"; }));
  for (int time = 0; time < 2; ++time) {
    const auto stacks = dump(launcher);
    ASSERT_EQ(stacks.size(), 2U);
    for (const auto& [rank, text] : stacks) {
      EXPECT_THAT(text, ContainsRegex("\"MainThread\"\n(.*\n)*    wait_for_ever \\(worker.py:5\\)\n"));
    }
  }
  kill(pids[0], SIGKILL);
}

TEST_F(AgentStacks, AreNotWrittenThroughALink) {
  TestLauncher launcher({});
  start(launcher, {"sh", "-c",
                   "own=$(dirname $TORCHELASTIC_ERROR_FILE)/rank_$RANK; mkdir -p $own; ln -s " +
                       (scratch_ / "elsewhere") + " $own/stacks.txt; echo made; sleep 1000"});
  ASSERT_TRUE(eventually(
      [&] { return log("rank_0/stdout.log") == "made\n" && log("rank_1/stdout.log") == "made\n"; }));
  dump(launcher);
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "elsewhere"));
}

}  // namespace
}  // namespace muster
