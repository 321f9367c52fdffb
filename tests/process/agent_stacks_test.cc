// A real agent that is asked for its workers' stacks and passes notices on.
#include <csignal>
#include <fstream>
#include <regex>
#include <sys/syscall.h>

#include "common/base/clock.h"
#include "tests/process/agent_process_fixture.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr Duration kLimit = std::chrono::seconds(10);  // programs are waited for 1.5 s

// The example of docs/protocol.md, then a worker that waits for ever, with rank 1 deaf.
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

class AgentStacks : public AgentProcess {
 protected:
  void start(TestLauncher& launcher, const std::vector<std::string>& command) {
    wire::JobSpec job = this->job("");
    job.command = command;
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
  start(launcher, {"sleep", "1000"});
  for (const std::int32_t pid : pids)
    ASSERT_TRUE(eventually([&] { return waits_in(pid, SYS_clock_nanosleep); }));
  const auto stacks = dump(launcher);
  for (const int rank : {0, 1})
    EXPECT_THAT(stacks.at(rank),
                AllOf(HasSubstr("cannot write its own stacks"),
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
    if (said->kind == "hello") greeted.insert(said->rank.value());
  }
  ASSERT_TRUE(eventually([&] { return log("rank_0/stdout.log") == "waiting\n"; }));
  kill(pids[1], SIGSTOP);
  ASSERT_TRUE(eventually([&] {
    return read_file(fmt::format("/proc/{}/stat", pids[1]), 4096).value_or("").find(") T ") !=
           std::string::npos;
  }));
  for (int time = 0; time < 2; ++time) {
    const auto stacks = dump(launcher);
    EXPECT_THAT(stacks.at(0), HasSubstr("wait_for_ever"));
    EXPECT_THAT(stacks.at(1), AllOf(HasSubstr("did not answer"), HasSubstr("is stopped")));
  }
}

TEST_F(AgentStacks, AreNotWrittenThroughALink) {
  TestLauncher launcher({});
  start(launcher, {"sh", "-c",
                   "ln -s " + (scratch_ / "elsewhere") +
                       " $(dirname $TORCHELASTIC_ERROR_FILE)/stacks.txt; echo made; sleep 1000"});
  ASSERT_TRUE(eventually(
      [&] { return log("rank_0/stdout.log") == "made\n" && log("rank_1/stdout.log") == "made\n"; }));
  dump(launcher);
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "elsewhere"));
}

}  // namespace
}  // namespace muster
