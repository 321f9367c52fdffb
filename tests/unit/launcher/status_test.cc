#include "launcher/core/view/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/core/text/table.h"
#include "launcher/core/view/progress.h"
#include "launcher/core/view/top.h"

namespace muster::launcher {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

class RankTableTest : public testing::Test {
 protected:
  void say(wire::ToLauncher message, Attempt attempt = Attempt(1), NodeId node = NodeId(1)) {
    table.on(members.at(static_cast<std::size_t>(node.value())), attempt, message, now);
  }
  void report(const std::string& kind, std::int64_t step, const std::string& text = "") {
    if (kind == "step") steps.made(Rank(3), step);
    say(wire::WorkerReported{Rank(3), *wire::word_named<wire::ReportKind>(kind), step, text});
  }
  RankStatus rank(std::int32_t number) const {
    return statuses_of(table, steps, members, now).at(static_cast<std::size_t>(number));
  }

  RankTable table;
  Steps steps;
  std::vector<NodePlan> members = {{NodeId(0), Rank(0), 2}, {NodeId(1), Rank(2), 2}};
  TimePoint now{1h};
};

TEST_F(RankTableTest, HasNoEntryForRanksThatHaveNotStarted) {
  ASSERT_EQ(statuses_of(table, steps, members, now).size(), 4U);
  EXPECT_EQ(rank(3).state, "not started");
  EXPECT_EQ(rank(3).node, NodeId(1));
  EXPECT_EQ(rank(3).pid, 0);
}

TEST_F(RankTableTest, GivesEachRankItsProcess) {
  say(wire::WorkersStarted{.pids = {70, 71}});
  report("hello", 0);
  now += 500ms;
  EXPECT_EQ(rank(2).pid, 70);
  EXPECT_EQ(rank(3).pid, 71);
  EXPECT_EQ(rank(3).state, "running");
  EXPECT_DOUBLE_EQ(rank(3).last_sign_seconds.value(), 0.5);
  EXPECT_EQ(rank(0).state, "not started");
}

TEST_F(RankTableTest, MeasuresStepsOverSecondsNotOverTheWholeAttempt) {
  report("step", 1);
  EXPECT_FALSE(rank(3).steps_per_second);
  for (int step = 2; step <= 11; ++step) {  // slow at first
    now += 1s;
    report("step", step);
  }
  EXPECT_NEAR(rank(3).steps_per_second.value(), 1.0, 1e-9);
  for (int step = 12; step <= 211; ++step) {  // then ten times as fast, for 20 s
    now += 100ms;
    report("step", step);
  }
  EXPECT_NEAR(rank(3).steps_per_second.value(), 10.0, 1e-9);
  EXPECT_EQ(rank(3).step, 211);
}

TEST_F(RankTableTest, ShowsTheSectionAndRemarks) {
  report("heartbeat", -1, "eval");
  EXPECT_EQ(rank(3).section, "eval");
  wire::WorkerStalled stalled;
  stalled.rank = Rank(3);
  stalled.what = "is stopped (SIGSTOP) for 3 s";
  say(stalled);
  EXPECT_EQ(rank(3).state, "is stopped (SIGSTOP) for 3 s");
  now += 20s;
  EXPECT_EQ(rank(3).state, "is stopped (SIGSTOP) for 3 s, 20 s ago");
  report("step", 4);
  EXPECT_EQ(rank(3).state, "running") << "it goes on";
  report("heartbeat", 4);
  EXPECT_EQ(rank(3).section, "");
  report("finished", 4);
  EXPECT_EQ(rank(3).state, "finished");
  wire::WorkerExited exited;
  exited.rank = Rank(3);
  exited.signal = 9;
  say(exited);
  EXPECT_EQ(rank(3).state, "was killed by SIGKILL");
}

TEST_F(RankTableTest, HasNoLastSignOfASilentProgram) {
  say(wire::WorkersStarted{.pids = {70, 71}});
  now += 10s;
  EXPECT_EQ(rank(3).last_sign_seconds, std::nullopt);
  EXPECT_EQ(rank(3).state, "running");
  wire::WorkerExited exited;
  exited.rank = Rank(3);
  say(exited);
  EXPECT_EQ(rank(3).last_sign_seconds, std::nullopt);
}

TEST_F(RankTableTest, ForgetsTheAttemptBefore) {
  say(wire::WorkersStarted{.pids = {70, 71}});
  say(wire::WorkersStarted{.pids = {80, 81}}, Attempt(2), NodeId(0));
  EXPECT_EQ(rank(3).state, "not started");
  EXPECT_EQ(rank(1).pid, 81);
}

TEST(StartProgress, ShowsProgressAndWhatItWaitsFor) {
  EXPECT_EQ(progress_text({.agents_joined = 1, .agents = 2, .waiting_for = "waiting for the agent of node1"}),
            "starting: 1 of 2 agents joined; waiting for the agent of node1");
  EXPECT_EQ(
      progress_text({.agents_joined = 2, .agents = 2, .workers_started = 3, .workers = 4, .waiting_for = ""}),
      "starting: 2 of 2 agents joined, 3 of 4 workers started");
}

JobStatus example() {
  return {.job_id = "mnist-1",
          .phase = "running",
          .waiting_for = "",
          .attempt = 2,
          .restart_count = 1,
          .max_restarts = 3,
          .elapsed_seconds = 75,
          .committed_step = 300,
          .nodes = {{NodeId(0), Rank(0), 1}},
          .ranks = {{.rank = Rank(0),
                     .node = NodeId(0),
                     .pid = 70,
                     .step = 350,
                     .steps_per_second = 12.345,
                     .loss = 0.5,
                     .samples_per_second = 395.04,
                     .last_sign_seconds = 0.25,
                     .section = "eval",
                     .state = "running",
                     .usage = wire::RankUsage{.rank = Rank(0),
                                              .cpu_ns = 30'000'000'000,
                                              .age_ns = 60'000'000'000,
                                              .memory_bytes = 3 << 29,
                                              .gpu = 1,
                                              .gpu_percent = 97,
                                              .gpu_memory_bytes = std::int64_t{40} << 30,
                                              .gpu_memory_total_bytes = std::int64_t{80} << 30,
                                              .gpu_watts = 650}}},
          .events = {{12, "rank 0 (node0) was killed by SIGKILL"}}};
}

TEST(Top, ShowsTheProcessorTimeBetweenTwoAnswers) {
  const JobStatus first = example();
  JobStatus second = example();
  second.ranks[0].usage->cpu_ns += 3'000'000'000;
  second.ranks[0].usage->age_ns += 2'000'000'000;
  EXPECT_THAT(top_as_text(first, std::nullopt, {}), HasSubstr("   50%"));
  const std::string text = top_as_text(second, first, {});
  EXPECT_EQ(
      text,
      "mnist-1  running for 1m15s, attempt 2: 1 rank on 1 node, 395 samples/s\n"
      "RANK  NODE      STEP  SAMPLES/S      LOSS    CPU    MEMORY  GPU                       STATE\n"
      "   0  node0      350      395.0       0.5   150%   1.5 GiB  1: 97% 40.0/80 GiB 650 W  running\n");
  const std::string narrow = top_as_text(second, first, {.columns = 80});
  EXPECT_TRUE(fits(narrow, 80)) << narrow;
  EXPECT_THAT(narrow, HasSubstr("1: 97% 40.0/80 GiB"));
  second.ranks[0].pid = 71;  // another process
  EXPECT_THAT(top_as_text(second, first, {}), HasSubstr("   53%"));
  second.ranks[0].usage.reset();
  second.ranks[0].loss = std::nan("");
  EXPECT_THAT(top_as_text(second, first, {}), HasSubstr(" nan      -         -  - "));
  EXPECT_FALSE(knows_usage(second));
  EXPECT_TRUE(knows_usage(first));
  EXPECT_THAT(top_as_json(first, std::nullopt), HasSubstr("\"cpu_percent\": 50.0"));
}

TEST(Top, FitsTheScreen) {
  JobStatus status = example();
  for (int rank = 1; rank < 10; ++rank) {
    status.ranks.push_back(status.ranks[0]);
    status.ranks.back().rank = Rank(rank);
  }
  const std::string text = top_as_text(status, std::nullopt, {.columns = 20, .rows = 5, .bold = true});
  EXPECT_EQ(text,
            "mnist-1  running for\n\033[1mRANK  NODE      STEP\033[0m\n   0  node0      350\n"
            "   1  node0      350\n... and 8 more ranks\n");
}

TEST(JobStatusLine, IsReadAsItWasWritten) {
  const std::string line = status_as_line(example());
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  const auto read = parse_status(line);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(status_as_line(*read), line);
  EXPECT_EQ(read->committed_step, 300);
  EXPECT_FALSE(read->ranks[0].resumed_step);
}

TEST(JobStatusLine, IsRefusedIfMalformed) {
  for (const char* line : {"", "{}", "[1]", "{\"job_id\": 1e300}"})
    EXPECT_EQ(parse_status(line).error().code(), ErrorCode::kCorrupt) << line;
}

TEST(JobStatusText, SaysItAllInATable) {
  const std::string text = status_as_text(example());
  EXPECT_THAT(text, HasSubstr("mnist-1  running for 1m15s: 1 rank on 1 node\n"));
  EXPECT_THAT(text, HasSubstr("attempt      2, 1 of 3 restarts used\n"));
  EXPECT_THAT(text, HasSubstr("checkpoint   committed up to step 300\n"));
  EXPECT_THAT(text, HasSubstr("   0  node0   70   350    12.35   0.2s ago  eval     running\n"));
  EXPECT_THAT(text, HasSubstr("12s ago  rank 0 (node0) was killed by SIGKILL\n"));
}

TEST(JobStatusText, FitsATerminalAndLosesNoWordOfAState) {
  JobStatus status = example();
  status.names = NodeNames({{NodeId(0), "gpu-host-17.cluster.example.org"}});
  status.ranks[0].state = "stalls for 312 s in section eval: its processes sleep";
  status.events[0].text = std::string(30, 'a') + " " + std::string(60, 'b');
  const std::string text = status_as_text(status, 80);
  EXPECT_TRUE(fits(text, 80)) << text;
  for (const char* word : {"stalls", "312", "section", "processes", "sleep"})
    EXPECT_THAT(text, HasSubstr(word));
  EXPECT_THAT(text, HasSubstr(std::string(60, 'b')));
  EXPECT_FALSE(fits(status_as_text(status), 80));
}

TEST(JobStatusText, NamesTheHostsOfAJobThatHasThem) {
  JobStatus status = example();
  status.names = NodeNames({{NodeId(0), "gpu-host-17"}});
  const auto read = parse_status(status_as_line(status));
  ASSERT_TRUE(read) << read.error().message();
  const std::string text = status_as_text(*read);
  EXPECT_THAT(text, HasSubstr("RANK  NODE                 PID "));
  EXPECT_THAT(text, HasSubstr("   0  node0 (gpu-host-17)   70 "));
}

TEST(JobStatusText, CountsRestartsOfMoreThanAWindow) {
  JobStatus status = example();
  status.restart_count = 5;
  EXPECT_THAT(status_as_text(status), HasSubstr("attempt      2, 5 restarts, not all within the window\n"));
}

}  // namespace
}  // namespace muster::launcher
