// A real agent with the output, log files and reports of its workers.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <limits>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "common/base/clock.h"
#include "tests/process/agent_process_fixture.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

bool send_datagram(const std::string& path, const std::string& datagram) {
  const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return sendto(fd.get(), datagram.data(), datagram.size(), 0, reinterpret_cast<const sockaddr*>(&address),
                sizeof address) == static_cast<ssize_t>(datagram.size());
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
    ASSERT_FALSE(output.text.view().empty());
    EXPECT_EQ(output.text.view().back(), '\n');
    EXPECT_LE(output.text.view().size(), 512U << 10);  // other messages may come between
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

TEST_F(AgentProcess, CopiesLinesWithAWantedTextToAFileOfTheirOwn) {
  TestLauncher launcher({});
  wire::JobSpec job = this->job("echo \"loss $RANK\"; echo noise; printf 'a,b without end'; echo noise >&2");
  job.stdout_filters = {"loss", "a,b"};
  job.stderr_filters = {"error"};
  launcher.welcome(job);
  ASSERT_EQ(launcher.start(2).size(), 2U);
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  const std::string kept = log("filtered_stdout.log");
  for (const char* line : {"node0:0: loss 0\n", "node0:1: loss 1\n", "node0:0: a,b without end\n"})
    EXPECT_THAT(kept, HasSubstr(line));
  EXPECT_EQ(std::ranges::count(kept, '\n'), 4);
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "logs/attempt_1/filtered_stderr.log"));
  EXPECT_EQ(log("rank_0/stdout.log"), "loss 0\nnoise\na,b without end");
}

TEST_F(AgentProcess, KeepsAnEmptyFileOfAStreamThatSaidNothing) {
  TestLauncher launcher({});
  launcher.welcome(job("exit 0"));
  ASSERT_EQ(launcher.start(3).size(), 3U);
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  for (const char* rank : {"rank_0", "rank_1", "rank_2"}) {
    for (const char* stream : {"/stdout.log", "/stderr.log"}) {
      EXPECT_TRUE(
          std::filesystem::is_regular_file(scratch_ / (std::string("logs/attempt_1/") + rank + stream)))
          << rank << stream;
    }
  }
}

constexpr const char* kPrintsMuchAndIgnoresTerm = "trap '' TERM; seq 1000000 1999999; exit 5";
constexpr wire::StopWorkers kStop{SIGTERM, 60'000'000'000};
constexpr wire::Preempt kNotice{60'000'000'000};

// A rank of this job waits, and ends after the word `end` on its stdin.
void waiting_ends_with(TestLauncher& launcher, const wire::ToAgent& end) {
  launcher.send(end);
  const auto exited = launcher.wait_for<wire::WorkerExited>();
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->exit_code, 5) << "it came to its end";
  EXPECT_TRUE(launcher.wait_for<wire::WorkersGone>());
}

// One rank's log file is a pipe without a reader: opening it blocks for ever.
class BlockedLog : public AgentProcess {
 protected:
  BlockedLog() {
    std::filesystem::create_directories(scratch_ / "logs/attempt_1/rank_0");
    EXPECT_EQ(mkfifo((scratch_ / "logs/attempt_1/rank_0/stdout.log").c_str(), 0600), 0);
  }
  static bool answers_pings(TestLauncher& launcher) {
    launcher.send(wire::Ping{1});
    return launcher.wait_for<wire::Pong>().has_value();
  }
  void begin_waiting(TestLauncher& launcher) {
    wire::JobSpec job = this->job(kPrintsMuchAndIgnoresTerm);
    job.limits.output_stall = std::chrono::hours(1);
    launcher.welcome(job);
    ASSERT_EQ(launcher.start(1).size(), 1U);
    ASSERT_TRUE(launcher.wait_for<wire::Output>());
  }
};

TEST_F(BlockedLog, TheAgentAnswersAndWorkersThatPrintLittleGoOn) {
  TestLauncher launcher({});
  const std::string go = scratch_ / "go";
  launcher.welcome(job("for i in 1 2 3; do echo $i; done; while ! [ -e " + go +
                       " ]; do sleep 0.02; done; echo end; exit $RANK"));
  ASSERT_EQ(launcher.start(2).size(), 2U);
  while (launcher.output(0, 1) != "1\n2\n3\n" || launcher.output(1, 1) != "1\n2\n3\n")
    ASSERT_TRUE(launcher.wait_for<wire::Output>());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(answers_pings(launcher));
  std::ofstream(go).put('\n');
  ASSERT_TRUE(launcher.wait_for<wire::WorkerExited>());
  ASSERT_TRUE(launcher.wait_for<wire::WorkerExited>());
  EXPECT_TRUE(answers_pings(launcher)) << "while the log file is waited for";
  EXPECT_EQ(launcher.output(0, 1), "1\n2\n3\nend\n");
  EXPECT_EQ(launcher.output(1, 1), "1\n2\n3\nend\n");
}

TEST_F(BlockedLog, HoldsUpWhoPrintsMuchForTheStallAndThenLinesAreCounted) {
  TestLauncher launcher({});
  wire::JobSpec job = this->job("seq 1000000 1999999");
  job.limits.output_stall = std::chrono::milliseconds(500);
  launcher.welcome(job);
  ASSERT_EQ(launcher.start(1).size(), 1U);
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  EXPECT_EQ(launcher.output(0, 1).size(), 8'000'000U) << "the copy for the terminal has all";
  std::vector<std::string> texts;
  for (const auto& notice : launcher.all<wire::AgentRemark>()) texts.push_back(notice.text);
  EXPECT_THAT(texts, testing::ElementsAre(
                         HasSubstr("stdout.log cannot keep up with the output; later lines may be missing"),
                         testing::MatchesRegex(
                             "[1-9][0-9]* lines were not written to the log files of attempt 1 in time; "
                             "[1-9][0-9]* bytes are still waiting")));
  launcher.send(wire::Leave{});
  EXPECT_EQ(launcher.agent_exit(), 0) << "although the file still blocks";
}

// The log file takes longer than the limit for killing leftovers.
TEST_F(BlockedLog, AnAttemptIsOverWhenASlowLogFileHasTakenAll) {
  constexpr std::size_t kAll = 700'000;
  const UniqueFd reader(
      open((scratch_ / "logs/attempt_1/rank_0/stdout.log").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  TestLauncher launcher({});
  launcher.welcome(job("seq 100000 199999"));
  ASSERT_EQ(launcher.start(1).size(), 1U);
  ASSERT_TRUE(launcher.wait_for<wire::WorkerExited>());
  const TimePoint ended = Clock::now();
  std::size_t taken = 0;
  char buffer[4096];
  const auto take = [&] {
    const ssize_t got = read(reader.get(), buffer, sizeof buffer);
    taken += got > 0 ? static_cast<std::size_t>(got) : 0;
  };
  while (Clock::now() < ended + std::chrono::seconds(5)) {
    launcher.send(wire::Ping{1});
    const auto pong = launcher.wait_for<wire::Pong>();
    ASSERT_TRUE(pong);
    EXPECT_TRUE(pong->output_waits);
    ASSERT_TRUE(launcher.all<wire::WorkersGone>().empty());
    if (taken < kAll / 2) take();
    poll(nullptr, 0, 20);  // a slow reader
  }
  while (taken < kAll) take();
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  EXPECT_TRUE(launcher.all<wire::AgentRemark>().empty());
}

TEST_F(BlockedLog, AStopEndsTheWaiting) {
  TestLauncher launcher({});
  ASSERT_NO_FATAL_FAILURE(begin_waiting(launcher));
  waiting_ends_with(launcher, kStop);
}

TEST_F(BlockedLog, ANoticeEndsTheWaiting) {
  TestLauncher launcher({});
  ASSERT_NO_FATAL_FAILURE(begin_waiting(launcher));
  waiting_ends_with(launcher, kNotice);
}

// All workers run, but one log file cannot be created.
TEST_F(AgentProcess, SaysThatALogFileCannotBeCreatedAndGoesOn) {
  TestLauncher launcher({});
  std::filesystem::create_directories(scratch_ / "logs/attempt_1/rank_1/stdout.log");
  launcher.welcome(job("echo from $RANK; exit $RANK"));
  ASSERT_EQ(launcher.start(2).size(), 2U);
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  EXPECT_EQ(launcher.all<wire::WorkerExited>().size(), 2U);
  EXPECT_EQ(log("rank_0/stdout.log"), "from 0\n");
  const auto notices = launcher.all<wire::AgentRemark>();
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_THAT(notices[0].text, HasSubstr("cannot write " + scratch_ / "logs/attempt_1/rank_1/stdout.log"));
  EXPECT_THAT(launcher.output(1, 1), HasSubstr("from 1\n"));
}

// With a window: the most output in flight that the launcher has not acknowledged.
class OutputWindow : public AgentProcess {
 protected:
  static constexpr std::int64_t kWindow = 256 << 10;
  wire::JobSpec job(const std::string& script, std::chrono::nanoseconds stall) {
    wire::JobSpec spec = AgentProcess::job(script);
    spec.output_window_bytes = kWindow;
    spec.limits.output_stall = stall;
    return spec;
  }
  static std::int64_t received(const TestLauncher& launcher) {
    return static_cast<std::int64_t>(launcher.output(0, 1).size());
  }
  // All messages that the agent sent before its answer have been received.
  static void hear_all(TestLauncher& launcher) {
    launcher.send(wire::Ping{1});
    ASSERT_TRUE(launcher.wait_for<wire::Pong>());
  }
  static std::uint64_t dropped(const TestLauncher& launcher) {
    std::uint64_t lines = 0;
    for (const auto& output : launcher.all<wire::Output>()) lines += output.dropped_line_count;
    return lines;
  }
  static void expect_all_received_or_counted(const TestLauncher& launcher) {
    EXPECT_EQ(static_cast<std::uint64_t>(received(launcher)) / 8 + dropped(launcher), 1'000'000U);
  }
  void begin_waiting(TestLauncher& launcher) {
    launcher.welcome(job(kPrintsMuchAndIgnoresTerm, std::chrono::hours(1)));
    ASSERT_EQ(launcher.start(1).size(), 1U);
    while (received(launcher) <= kWindow) ASSERT_TRUE(launcher.wait_for<wire::Output>());
    hear_all(launcher);
    EXPECT_TRUE(launcher.all<wire::WorkerExited>().empty());
  }
};

TEST_F(OutputWindow, ARankWaitsUntilItsOutputIsCalledTakenAndLosesNothingWhileTheAgentAnswers) {
  constexpr std::int64_t kAll = 8'000'000;
  // The size of one read, plus the bytes left in a pipe at the end.
  constexpr std::int64_t kPiece = (512 << 10) + (1 << 20);
  TestLauncher launcher({});
  launcher.welcome(job("seq 1000000 1999999", std::chrono::hours(1)));
  ASSERT_EQ(launcher.start(1).size(), 1U);
  std::int64_t taken = 0;
  while (received(launcher) < kAll) {
    ASSERT_TRUE(launcher.wait_for<wire::Output>());
    hear_all(launcher);
    ASSERT_LE(received(launcher) - taken, kWindow + kPiece);
    taken = received(launcher);
    launcher.send(wire::OutputTaken{1, taken});
  }
  if (launcher.all<wire::WorkersGone>().empty()) ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  EXPECT_EQ(received(launcher), kAll);
  EXPECT_EQ(dropped(launcher), 0U);
}

TEST_F(OutputWindow, LinesAreDroppedAndCountedWhenNothingIsCalledTakenForTheStall) {
  TestLauncher launcher({});
  launcher.welcome(job("seq 1000000 1999999", std::chrono::milliseconds(300)));
  ASSERT_EQ(launcher.start(1).size(), 1U);
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  EXPECT_GT(dropped(launcher), 0U);
  expect_all_received_or_counted(launcher);
  EXPECT_EQ(log("rank_0/stdout.log").size(), 8'000'000U) << "the log file has them";
}

TEST_F(OutputWindow, AStopEndsTheWaiting) {
  TestLauncher launcher({});
  ASSERT_NO_FATAL_FAILURE(begin_waiting(launcher));
  waiting_ends_with(launcher, kStop);
  expect_all_received_or_counted(launcher);
}

TEST_F(OutputWindow, ANoticeEndsTheWaiting) {
  TestLauncher launcher({});
  ASSERT_NO_FATAL_FAILURE(begin_waiting(launcher));
  waiting_ends_with(launcher, kNotice);
  expect_all_received_or_counted(launcher);
}

TEST_F(OutputWindow, ALauncherThatIsGoneHoldsUpNobody) {
  TestLauncher launcher({});
  const std::string done = scratch_ / "done";
  wire::JobSpec spec = job("seq 1000000 1999999; : > " + done + "; sleep 1000", std::chrono::hours(1));
  spec.limits.controller_grace = std::chrono::seconds(60);
  launcher.welcome(spec);
  ASSERT_EQ(launcher.start(1).size(), 1U);
  while (received(launcher) <= kWindow) ASSERT_TRUE(launcher.wait_for<wire::Output>());
  launcher.hang_up();
  EXPECT_TRUE(eventually([&done] { return std::filesystem::exists(done); }));
}

TEST_F(AgentProcess, DropsAndCountsTerminalLinesWhenTheLauncherDoesNotRead) {
  TestLauncher launcher({});
  const std::string done = scratch_ / "done";
  launcher.welcome(job("seq 1 6000000; : > " + done));
  ASSERT_EQ(launcher.start(1).size(), 1U);
  ASSERT_TRUE(eventually([&done] { return std::filesystem::exists(done); }, std::chrono::seconds(30)));
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  const std::string terminal = launcher.output(0, 1);
  std::uint64_t lines = static_cast<std::uint64_t>(std::ranges::count(terminal, '\n'));
  std::uint64_t dropped = 0;
  for (const auto& output : launcher.all<wire::Output>()) dropped += output.dropped_line_count;
  EXPECT_GT(dropped, 0U);
  EXPECT_EQ(lines + dropped, 6000000U);
  const std::string file = log("rank_0/stdout.log");
  EXPECT_EQ(std::ranges::count(file, '\n'), 6000000);
}

TEST_F(AgentProcess, GoesOnWhenALogFileCannotGrow) {
  TestLauncher launcher({.in_child = [] {
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
  }});
  launcher.welcome(job("seq 1 5000 | tee /dev/stderr; exit 7"));
  ASSERT_EQ(launcher.start(1).size(), 1U);
  const auto exited = launcher.wait_for<wire::WorkerExited>();
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->exit_code, 7);
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  EXPECT_EQ(log("rank_0/stderr.log").size(), 4096U);
  EXPECT_EQ(log("rank_0/stdout.log").size(), 4096U);
  const std::string terminal = launcher.output(0, 1);
  EXPECT_EQ(std::ranges::count(terminal, '\n'), 5000);
  const auto notices = launcher.all<wire::AgentRemark>();
  ASSERT_EQ(notices.size(), 1U) << "both logs are on one disk";
  EXPECT_THAT(notices[0].text, HasSubstr("cannot write " + scratch_ / "logs/attempt_1/rank_0/std"));
  EXPECT_THAT(notices[0].text, HasSubstr("File too large"));
}

TEST_F(AgentProcess, ReportsTheEndOfAWorkerWhosePipeIsHeldOpenByAnother) {
  TestLauncher launcher({});
  launcher.welcome(job("(setsid sleep 1000 &); echo bye; exit 4"));
  ASSERT_EQ(launcher.start(1).size(), 1U);
  const auto exited = launcher.wait_for<wire::WorkerExited>();
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->exit_code, 4);
  EXPECT_EQ(launcher.output(0, 1), "bye\n");
  // The agent killed the leftover before it reported that all workers are gone.
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  EXPECT_THAT(processes(), IsEmpty());
}

TEST_F(AgentProcess, PassesOnTheErrorFile) {
  TestLauncher launcher({});
  launcher.welcome(
      job("printf '{\"message\":1}' > $TORCHELASTIC_ERROR_FILE; echo $TORCHELASTIC_ERROR_FILE; exit 1"));
  ASSERT_EQ(launcher.start(1).size(), 1U);
  const auto exited = launcher.wait_for<wire::WorkerExited>();
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->error_file, "{\"message\":1}");
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  EXPECT_EQ(log("rank_0/error.json"), "{\"message\":1}");
  const std::string place = scratch_ / "logs/attempt_1/error_0.json";
  EXPECT_EQ(launcher.output(0, 1), place + "\n");
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(place); })) << "moved, not copied";
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
    if (report.rank == Rank(1)) committed += report.kind == wire::ReportKind::kCommitted ? 1 : 0;
    EXPECT_NE(report.kind, wire::ReportKind::kFinished);
  }
  EXPECT_EQ(last_step, 50);
  EXPECT_EQ(committed, 1);
}

// Faster than the agent reads: the socket is full most of the time.
TEST_F(AgentProcess, PassesOnEveryMetricOfAPythonProgramInOrderBeforeItsEnd) {
  TestLauncher launcher({});
  wire::JobSpec job = this->job("");
  job.command = {"python3", "-c", R"(
import muster
for step in range(1, 2001):
    muster.report("val_loss", step / 8, step)
muster.committed(7, all=True)
muster.report("val_loss", float("nan"))
muster.report({"accuracy": 1, "loss": float("-inf")})
)"};
  launcher.welcome(job);
  ASSERT_EQ(launcher.start(1).size(), 1U);
  ASSERT_TRUE(launcher.wait_for<wire::WorkerExited>());
  std::vector<wire::WorkerReported> metrics;
  for (const auto& report : launcher.all<wire::WorkerReported>())
    if (report.kind == wire::ReportKind::kMetric) metrics.push_back(report);
  ASSERT_EQ(metrics.size(), 2002U);
  using Values = std::map<std::string, double>;
  for (int step = 1; step <= 2000; ++step) {
    const auto& metric = metrics[static_cast<std::size_t>(step - 1)];
    ASSERT_EQ(metric.step, step);
    ASSERT_EQ(metric.values, (Values{{"val_loss", step / 8.0}}));
  }
  EXPECT_EQ(metrics[2000].step, 2001);
  EXPECT_TRUE(std::isnan(metrics[2000].values.at("val_loss")));
  EXPECT_EQ(metrics[2001].step, 1);
  EXPECT_EQ(metrics[2001].values,
            (Values{{"accuracy", 1}, {"loss", -std::numeric_limits<double>::infinity()}}));
}

TEST_F(AgentProcess, DropsReportsThatTheLauncherDoesNotReadButNotThatARankIsFenced) {
  TestLauncher launcher({});
  launcher.welcome(job("echo $MUSTER_SOCKET; sleep 1000"));
  ASSERT_EQ(launcher.start(1).size(), 1U);
  while (launcher.output(0, 1).empty()) ASSERT_TRUE(launcher.wait_for<wire::Output>());
  std::string path = launcher.output(0, 1);
  path.pop_back();
  const auto say = [&path](const std::string& kind, const std::string& text) {
    const std::string datagram =
        R"({"v":1,"type":")" + kind + R"(","rank":0,"attempt":1,"text":")" + text + "\"}";
    return eventually([&] { return send_datagram(path, datagram); });
  };
  constexpr std::size_t kReports = 7000;
  for (std::size_t i = 0; i < kReports; ++i) ASSERT_TRUE(say("committed", std::string(7000, 'x')));
  ASSERT_TRUE(say("fenced", "by another"));
  launcher.send(wire::StopWorkers{SIGTERM, 5'000'000'000});
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  const auto reports = launcher.all<wire::WorkerReported>();
  EXPECT_LT(reports.size(), kReports);
  EXPECT_EQ(std::ranges::count(reports, wire::ReportKind::kFenced, &wire::WorkerReported::kind), 1);
}

}  // namespace
}  // namespace muster
