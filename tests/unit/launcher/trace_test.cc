#include "launcher/core/view/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/trace_file.h"
#include "launcher/core/view/events.h"
#include "tests/trace_rules.h"

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// ---- The clock of a node ----

constexpr std::int64_t kMsNs = 1'000'000;
constexpr std::int64_t kSecondNs = 1'000'000'000;

TEST(TraceClock, IsTheLaunchersWithoutAnAnswer) {
  EXPECT_EQ(TraceClock().here(5 * kSecondNs), 5 * kSecondNs);
  EXPECT_FALSE(TraceClock().is_known());
}

TEST(TraceClock, ChangesEvenlyBetweenTwoAnswers) {
  const TraceClock clock(
      {{.round_trip_ns = 1000, .offset_ns = 100 * kSecondNs, .at_ns = 10 * kSecondNs},
       {.round_trip_ns = 1000, .offset_ns = 100 * kSecondNs + kMsNs, .at_ns = 20 * kSecondNs}});
  EXPECT_NEAR(clock.here(115 * kSecondNs), 15 * kSecondNs - kMsNs / 2, 1000);
  EXPECT_EQ(clock.here(105 * kSecondNs), 5 * kSecondNs) << "before the first";
  EXPECT_EQ(clock.here(150 * kSecondNs), 50 * kSecondNs - kMsNs) << "after the last";
}

TEST(TraceClock, IgnoresASlowAnswerNextToABetterOne) {
  const TraceClock clock(
      {{.round_trip_ns = 40 * kMsNs, .offset_ns = 100 * kSecondNs + 20 * kMsNs, .at_ns = 10 * kSecondNs},
       {.round_trip_ns = 100'000, .offset_ns = 100 * kSecondNs, .at_ns = 12 * kSecondNs},
       {.round_trip_ns = 60 * kMsNs, .offset_ns = 100 * kSecondNs - 30 * kMsNs, .at_ns = 14 * kSecondNs}});
  for (const std::int64_t at : {9, 10, 12, 13, 14, 20})
    EXPECT_EQ(clock.here((100 + at) * kSecondNs), at * kSecondNs) << at;
}

TEST(TraceClock, NeverRunsBackwards) {
  std::vector<ClockOffset::Answer> answers;
  for (int i = 0; i < 100; ++i)
    answers.push_back({.round_trip_ns = (i * 7919) % 5 * kMsNs + 1000,
                       .offset_ns = 7 * kSecondNs + (i * 104729) % 3 * kMsNs,
                       .at_ns = i * 16 * kSecondNs});
  const TraceClock clock(answers);
  std::int64_t before = clock.here(0);
  for (std::int64_t there = 0; there < 1600 * kSecondNs; there += 333 * kMsNs) {
    EXPECT_LE(before, clock.here(there)) << there;
    before = clock.here(there);
  }
}

TEST(TraceClock, TreatsARebootedHostAsAnotherClock) {
  const TraceClock clock({{.round_trip_ns = 1000, .offset_ns = 1000 * kSecondNs, .at_ns = 10 * kSecondNs},
                          {.round_trip_ns = 1000, .offset_ns = -50 * kSecondNs, .at_ns = 90 * kSecondNs}});
  EXPECT_EQ(clock.here(1012 * kSecondNs), 12 * kSecondNs);
  EXPECT_EQ(clock.here(42 * kSecondNs), 92 * kSecondNs);
}

TEST(TraceClock, ToleratesAnyNumbers) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const TraceClock clock({{kMost, kMost, kMost}, {0, -kMost, kMost}, {-5, 1LL << 60, -(1LL << 60)}});
  (void)clock.here(kSecondNs);
}

// ---- The trace ----

constexpr TimePoint kJobBegan{1000s};

class TraceTest : public testing::Test {
 protected:
  TraceTest() {
    job_.job_id = "j1";
    job_.world_size = 2;
    happened("agent_joined", 0ms);
  }
  void happened(const std::string& event, Duration after, std::uint64_t attempt = 0, std::string text = "") {
    events_ += event_line({.event = event, .text = std::move(text), .attempt = Attempt(attempt)}, 0,
                          kJobBegan + after);
  }
  void started(std::uint64_t attempt, int node, int rank, const std::string& host) {
    events_ += event_line({.event = "workers_started",
                           .rank = Rank(rank),
                           .node = NodeId(node),
                           .host = host,
                           .attempt = Attempt(attempt),
                           .worker_count = 1},
                          0, kJobBegan + 10ms);
  }
  // An event of a rank, on the clock of its node.
  static std::string line(int rank, TraceTrack track, const std::string& name, Duration from, Duration to,
                          Duration ahead = 0ms) {
    std::string text;
    append_trace_event(text, {.process = rank,
                              .track = static_cast<std::int64_t>(track),
                              .name = name,
                              .begin_ns = to_ns(kJobBegan + from + ahead),
                              .duration_ns = to_ns(to - from)});
    return text + ",\n";
  }
  using Texts = std::map<std::uint64_t, std::string>;
  ReadTrace merge(const std::vector<Texts>& of_ranks, std::optional<std::uint64_t> attempt = {}) {
    Trace trace(job_, events_, attempt);
    std::string text = trace.beginning();
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
      text += trace.of_rank(Rank(static_cast<std::int32_t>(rank)), of_ranks[rank]);
    text += Trace::end();
    summary_ = trace.summary();
    return ReadTrace(text);
  }
  JobRecord job_;
  std::string events_;
  Trace::Summary summary_;
};

TEST_F(TraceTest, HasEachRankAsAProcessFromTheJobsBeginningOn) {
  started(1, 0, 0, "");
  started(1, 3, 1, "");
  const auto trace = merge({{{1, "[\n" + line(0, TraceTrack::kStep, "step 1", 20ms, 30ms)}},
                            {{1, "[\n" + line(1, TraceTrack::kStep, "step 1", 21ms, 30ms)}}});
  EXPECT_THAT(trace.processes(), ElementsAre("rank 0 (node0)", "rank 1 (node3)", "launcher"));
  const auto steps = trace.spans(1, "step");
  ASSERT_THAT(steps, SizeIs(1));
  EXPECT_EQ(steps[0].begin_ns, 21 * kMsNs);
  EXPECT_EQ(steps[0].end_ns, 30 * kMsNs);
  EXPECT_EQ(summary_.ranks, 2U);
  EXPECT_EQ(summary_.events, 5U) << "three events of the launcher";
  EXPECT_DOUBLE_EQ(summary_.seconds(), 0.030);
  EXPECT_THAT(summary_.remarks, IsEmpty());
}

TEST_F(TraceTest, PutsARankOfAnotherHostOnTheLaunchersClock) {
  started(1, 0, 0, "h0");
  started(1, 1, 1, "h1");
  events_ +=
      clock_line(NodeId(0), "h0", {.round_trip_ns = 1000, .offset_ns = 0, .at_ns = to_ns(kJobBegan)}, 0);
  events_ += clock_line(NodeId(1), "h1",
                        {.round_trip_ns = 1000, .offset_ns = 5000 * kSecondNs, .at_ns = to_ns(kJobBegan)}, 0);
  const auto trace = merge({{{1, line(0, TraceTrack::kStep, "step 1", 20ms, 30ms)}},
                            {{1, line(1, TraceTrack::kStep, "step 1", 20ms, 30ms, 5000s)}}});
  EXPECT_THAT(trace.processes(), Contains("rank 1 (node1, h1)"));
  EXPECT_EQ(trace.spans(0, "step").at(0).end_ns, trace.spans(1, "step").at(0).end_ns);
  EXPECT_THAT(summary_.remarks, IsEmpty());
}

TEST_F(TraceTest, NamesTheNodeWithAnUnknownClock) {
  started(1, 0, 0, "h0");
  merge({{{1, line(0, TraceTrack::kStep, "step 1", 20ms, 30ms)},
          {2, line(0, TraceTrack::kStep, "step 2", 40ms, 50ms)}}});
  EXPECT_THAT(summary_.remarks, ElementsAre(HasSubstr("the clock offset of node0")));
}

TEST_F(TraceTest, SkipsATornTailAndCountsOtherLinesThatAreNotEvents) {
  const std::string good = line(0, TraceTrack::kStep, "step 1", 20ms, 30ms);
  merge({{{1, "[\n" + good + good.substr(0, good.size() / 2)}}});
  EXPECT_EQ(summary_.events, 2U);
  EXPECT_THAT(summary_.remarks, IsEmpty());
  std::string bad = "[\n" + good.substr(0, 9) + "\n\n" + good;
  for (const char* wrong : {R"({"ph":"X","pid":0,"tid":1,"ts":1e300,"dur":1,"name":"a"},)",
                            R"({"ph":"X","pid":0,"tid":1,"ts":-1e300,"dur":1e300,"name":"a"},)",
                            R"({"ph":"X","pid":0,"tid":1.5,"ts":1,"dur":1,"name":"a"},)",
                            R"({"ph":"X","pid":0,"tid":1,"ts":"1","dur":1,"name":"a"},)",
                            R"({"ph":"X","pid":0,"tid":1,"ts":1,"dur":1,"name":7},)",
                            R"({"ph":[[[[[[[[[[[[1]]]]]]]]]]]]},)", "[1],", "\x1b[31m"})
    bad += wrong + std::string("\n");
  merge({{{1, bad + good}}});
  EXPECT_EQ(summary_.events, 3U);
  EXPECT_THAT(summary_.remarks, ElementsAre("rank 0, attempt 1: 9 lines are not events"));
}

// Like the events of two loading threads.
TEST_F(TraceTest, GivesEventsThatOverlapTracksOfTheirOwn) {
  const auto trace = merge(
      {{{1, line(0, TraceTrack::kData, "b", 22ms, 34ms) + line(0, TraceTrack::kData, "a", 20ms, 30ms) +
                line(0, TraceTrack::kData, "a.a", 20ms, 25ms) + line(0, TraceTrack::kData, "c", 30ms, 40ms) +
                line(0, TraceTrack::kData, "d", 34ms, 38ms)}}});
  EXPECT_THAT(trace.tracks(0), ElementsAre("data", "data 2"));
  EXPECT_THAT(trace.spans(0, "data"), SizeIs(4));
  EXPECT_EQ(trace.spans(0, "data 2").at(0).name, "b");
}

TEST_F(TraceTest, TreatsLessThanAMicrosecondAsRounding) {
  const auto trace = merge({{{1, line(0, TraceTrack::kStep, "step 1", 20ms, 30ms + 300ns) +
                                     line(0, TraceTrack::kStep, "step 2", 30ms, 40ms) +
                                     line(0, TraceTrack::kStep, "data", 35ms, 40ms + 3ns) +
                                     line(0, TraceTrack::kStep, "step 3", 40ms, 50ms)}}});
  EXPECT_THAT(trace.tracks(0), ElementsAre("step"));
  EXPECT_THAT(trace.spans(0, "step"), SizeIs(4));
}

TEST_F(TraceTest, ShowsAttemptsAndEventsWithTheRanks) {
  happened("attempt_begun", 10ms, 1);
  happened("worker_exited", 30ms, 1, "rank 0: \xff");
  happened("attempt_ended", 40ms, 1, "rank 0 was killed");
  happened("attempt_begun", 50ms, 2);
  happened("committed", 80ms, 2);
  const std::vector<Texts> ranks{{{1, line(0, TraceTrack::kStep, "step 1", 20ms, 30ms)},
                                  {2, line(0, TraceTrack::kStep, "step 2", 60ms, 70ms)}}};
  const auto trace = merge(ranks);
  EXPECT_THAT(trace.spans(0, "step"), SizeIs(2));
  const auto attempts = trace.spans(ReadTrace::kLauncher, "attempts");
  ASSERT_THAT(attempts, SizeIs(2));
  EXPECT_EQ(attempts[0].name, "attempt 1");
  EXPECT_EQ(attempts[0].end_ns, 40 * kMsNs);
  EXPECT_EQ(attempts[0].arguments["text"], "rank 0 was killed");
  EXPECT_EQ(attempts[1].end_ns, 80 * kMsNs) << "it goes on";
  EXPECT_THAT(trace.named(ReadTrace::kLauncher, "events", "worker_exited"), SizeIs(1));

  const auto second = merge(ranks, 2);
  EXPECT_EQ(second.spans(0, "step").at(0).name, "step 2");
  EXPECT_THAT(second.spans(0, "step"), SizeIs(1));
  EXPECT_THAT(second.spans(ReadTrace::kLauncher, "attempts"), SizeIs(1));
  EXPECT_THAT(second.named(ReadTrace::kLauncher, "events", "worker_exited"), IsEmpty());
}

TEST_F(TraceTest, PassesOnRemarksInAFile) {
  merge({{{1, R"({"ph":"i","pid":0,"tid":1,"ts":1000020000.000,"s":"t","name":"the trace ends here"},)"
              "\n"}}});
  EXPECT_THAT(summary_.remarks, ElementsAre("rank 0, attempt 1: the trace ends here"));
}

TEST_F(TraceTest, WorksForAJobWithoutATime) {
  events_ = "{\"time\":1.5,\"event\":\"agent_joined\"}\n{\"event\":\n[]\n";
  const auto trace = merge({{{1, line(0, TraceTrack::kStep, "step 1", 20ms, 30ms)}}});
  EXPECT_THAT(trace.spans(0, "step"), SizeIs(1));
}

}  // namespace
}  // namespace muster::launcher
