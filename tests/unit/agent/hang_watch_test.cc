#include "agent/core/health/hang_watch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace muster::agent {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr TimePoint kStart{1000s};
constexpr HangWatch::Limits kDefaults{.heartbeat = 30s, .hang = 600s};

// Two ranks; the test moves the clock, and a look follows every second.
class Hang : public testing::Test {
 protected:
  void begin(HangWatch::Limits limits) {
    watch = HangWatch(limits);
    watch.add(Rank(0), now);
    watch.add(Rank(1), now);
  }
  void say(std::int32_t rank, const std::string& fields) {
    const auto report = parse_report(fmt::format(R"({{"v":1,"attempt":1,"rank":{},{}}})", rank, fields));
    ASSERT_TRUE(report) << fields;
    watch.on(*report, now);
  }
  void beat(std::int32_t rank) { say(rank, R"("type":"heartbeat")"); }
  void make_step(std::int32_t rank) { say(rank, fmt::format(R"("type":"step","step":{})", step)); }
  void section(std::int32_t rank, const std::string& name, const std::string& state) {
    say(rank, fmt::format(R"("type":"section","name":"{}","state":"{}")", name, state));
  }
  // Runs until `end`, in seconds after the start: each second first `each_second`, then a look. Records the
  // reports: "61 rank 1 hard".
  void run_to(int end, const std::function<void()>& each_second = [] {}) {
    while (now < kStart + std::chrono::seconds(end)) {
      now += 1s;
      each_second();
      for (const auto& stalled : watch.look(states, now)) {
        told.push_back(fmt::format("{} rank {} {}{}", (now - kStart) / 1s, stalled.rank,
                                   stalled.hard ? "hard" : "soft", stalled.stopped ? " stopped" : ""));
        last = stalled;
      }
    }
  }
  void alive() {
    beat(0);
    beat(1);
  }

  TimePoint now = kStart;
  HangWatch watch{kDefaults};
  std::map<Rank, ProcessState> states;
  std::int64_t step = -1;
  std::vector<std::string> told;
  wire::WorkerStalled last;
};

TEST_F(Hang, DoesNotLearnFromTheStepsAndSectionsOfAnotherGroup) {
  begin(kDefaults);
  const auto fast = [this] {
    alive();
    step = (now - kStart) / 1s;
    say(0, fmt::format(R"("type":"step","step":{},"group":"fast")", step));
    section(0, "eval", "enter");
    section(0, "eval", "leave");
  };
  say(1, R"("type":"step","step":0,"group":"slow")");
  run_to(200, fast);
  say(1, R"("type":"step","step":1,"group":"slow")");
  EXPECT_THAT(told, IsEmpty()) << "a step of 200 s alone is not suspicious";
  section(1, "eval", "enter");
  run_to(400, fast);
  EXPECT_THAT(told, IsEmpty());
  run_to(820, fast);
  EXPECT_THAT(told, ElementsAre("500 rank 1 soft", "800 rank 1 hard"));
}

TEST_F(Hang, LeavesAPlainProgramAlone) {
  begin(kDefaults);
  run_to(10'000);
  EXPECT_THAT(told, IsEmpty());
}

TEST_F(Hang, DoesNotMissAHeartbeatThatMayBeLate) {
  begin(kDefaults);
  say(0, R"("type":"heartbeat","may_be_late":true)");
  run_to(100);
  EXPECT_THAT(told, IsEmpty());
  beat(0);
  say(0, R"("type":"heartbeat","may_be_late":true)");
  run_to(131);
  EXPECT_THAT(told, ElementsAre("110 rank 0 soft", "130 rank 0 hard"))
      << "once it has sent one whose successor may not be late";
}

TEST_F(Hang, ReportsAStoppedProcessOnceAfterThreeSeconds) {
  begin(kDefaults);
  run_to(10);
  states[Rank(1)] = ProcessState::kStopped;
  run_to(60);
  EXPECT_THAT(told, ElementsAre("14 rank 1 hard stopped"));
  EXPECT_EQ(last.what, "is stopped (SIGSTOP) for 3 s");
  EXPECT_EQ(last.since_ns, to_ns(kStart + 11s));
}

TEST_F(Hang, ReportsAProcessInUninterruptibleSleepIfTheUserLimitsThat) {
  begin({.uninterruptible = 20s});
  run_to(10);
  states[Rank(1)] = ProcessState::kUninterruptible;
  run_to(60);
  EXPECT_THAT(told, ElementsAre("31 rank 1 hard"));
  EXPECT_EQ(last.what, "is in uninterruptible sleep (state D) for 20 s");
  EXPECT_EQ(last.since_ns, to_ns(kStart + 11s));
}

TEST_F(Hang, IgnoresUninterruptibleSleepIfTheProcessWakesInBetween) {
  begin({.uninterruptible = 20s});
  run_to(100, [this] {
    states[Rank(1)] = now == kStart + 15s ? ProcessState::kLive : ProcessState::kUninterruptible;
    if (now >= kStart + 34s) states.clear();
  });
  EXPECT_THAT(told, IsEmpty());
}

TEST_F(Hang, MissesTheHeartbeatsOfAProcessInUninterruptibleSleep) {
  begin(kDefaults);
  beat(1);
  states[Rank(1)] = ProcessState::kUninterruptible;
  run_to(100);
  EXPECT_THAT(told, ElementsAre("10 rank 1 soft", "30 rank 1 hard"));
  EXPECT_THAT(watch.stopped(now), IsEmpty());
}

TEST_F(Hang, ReportsWhatTheRankDoesWithinItsStep) {
  begin({.heartbeat = 30s, .hang = 4s});
  step = 7;
  make_step(0);
  const auto computes = [this] {
    say(0, R"("type":"heartbeat","activity":"stage 1: forward of microbatch 3")");
  };
  run_to(4, computes);
  EXPECT_THAT(told, ElementsAre("2 rank 0 soft", "4 rank 0 hard"));
  EXPECT_EQ(last.what, "has made no step after step 7 for 4 s, at stage 1: forward of microbatch 3");
  say(1, R"("type":"heartbeat","activity":"stage 2: backward of microbatch 0")");
  states[Rank(1)] = ProcessState::kStopped;
  run_to(10, computes);
  EXPECT_THAT(last.what, HasSubstr(" s, heard last at stage 2: backward of microbatch 0"));
}

TEST_F(Hang, ForgetsAProcessThatWasStoppedForAMoment) {
  begin(kDefaults);
  for (int second = 0; second < 30; second += 3) {
    states[Rank(1)] = ProcessState::kStopped;
    run_to(second + 2);
    states.clear();
    run_to(second + 3);
  }
  EXPECT_THAT(told, IsEmpty());
}

TEST_F(Hang, KnowsWhichRanksAreStoppedForAMomentWhenAsked) {
  begin(kDefaults);
  run_to(10);
  EXPECT_THAT(watch.stopped(now), IsEmpty());
  states[Rank(1)] = ProcessState::kStopped;
  run_to(12);
  const auto stopped = watch.stopped(now);
  ASSERT_EQ(stopped.size(), 1U);
  EXPECT_EQ(stopped[0].rank, Rank(1));
  EXPECT_TRUE(stopped[0].stopped);
  EXPECT_FALSE(stopped[0].hard);
  EXPECT_EQ(stopped[0].since_ns, to_ns(kStart + 11s));
  run_to(14);  // the look reports it
  EXPECT_THAT(watch.stopped(now), IsEmpty());
}

TEST_F(Hang, ReportsAFrozenProcess) {
  begin(kDefaults);
  states[Rank(0)] = ProcessState::kFrozen;
  run_to(4);
  EXPECT_THAT(told, ElementsAre("3 rank 0 hard stopped"));
  EXPECT_THAT(last.what, HasSubstr("frozen"));
}

TEST_F(Hang, MissesHeartbeatsOnlyOfRanksThatHadThem) {
  begin(kDefaults);
  beat(0);
  run_to(300);
  EXPECT_THAT(told, ElementsAre("10 rank 0 soft", "30 rank 0 hard"));
  EXPECT_EQ(last.what, "sent no heartbeat for 30 s");
}

TEST_F(Hang, TheTimeThatAWaitingOutputHoldsUpWorkersDoesNotCount) {
  begin(kDefaults);
  beat(0);
  step = 0;
  make_step(1);
  run_to(5);
  run_to(2000, [this] { watch.pause(now); });
  EXPECT_THAT(told, IsEmpty());
  run_to(2030);
  EXPECT_THAT(told, ElementsAre("2005 rank 0 soft", "2025 rank 0 hard"));
}

TEST_F(Hang, ReportsASecondSilenceAgain) {
  begin(kDefaults);
  beat(0);
  run_to(12);
  beat(0);
  run_to(24);
  EXPECT_THAT(told, ElementsAre("10 rank 0 soft", "22 rank 0 soft"));
}

TEST_F(Hang, GivesAFirstStepTheHangLimit) {
  begin(kDefaults);
  step = 0;
  make_step(1);
  run_to(700, [this] { alive(); });
  EXPECT_THAT(told, ElementsAre("300 rank 1 soft", "600 rank 1 hard"));
  EXPECT_EQ(last.step, 0);
  EXPECT_EQ(last.since_ns, to_ns(kStart));
}

TEST_F(Hang, LearnsHowLongStepsTake) {
  begin(kDefaults);
  for (step = 0; step < 10; ++step) {
    make_step(0);
    make_step(1);
    run_to(6 * static_cast<int>(step), [this] { alive(); });
  }
  --step;
  const int from = 54;
  make_step(0);
  run_to(from + 200, [this] {
    alive();
    ++step;
    make_step(0);
    --step;
  });
  EXPECT_THAT(told,
              ElementsAre(fmt::format("{} rank 1 soft", 48 + 30), fmt::format("{} rank 1 hard", 48 + 180)));
  EXPECT_EQ(last.what, "has made no step after step 9 for 180 s (the longest so far took 6.0 s)");
}

TEST_F(Hang, IsPatientWithAMachineTwentyTimesSlowerThanUsual) {
  begin(kDefaults);
  for (const int pace : {5, 100}) {
    for (int i = 0; i < 6; ++i) {
      ++step;
      make_step(0);
      make_step(1);
      run_to(static_cast<int>((now - kStart) / 1s) + pace, [this, pace] {
        if ((now - kStart) / 1s % (pace / 5) == 0) alive();
      });
    }
  }
  for (const std::string& line : told) EXPECT_THAT(line, HasSubstr("soft"));
}

TEST_F(Hang, NeverGoesBeyondASmallHangLimit) {
  begin({.heartbeat = 30s, .hang = 4s});
  for (step = 0; step < 10; ++step) {
    make_step(0);
    run_to(static_cast<int>(step), [this] { alive(); });
  }
  run_to(30, [this] { alive(); });
  EXPECT_THAT(told, ElementsAre("10 rank 0 soft", "12 rank 0 hard"));
}

TEST_F(Hang, CountsTimeInASectionForTheSectionOnly) {
  begin({.heartbeat = 30s, .hang = 20s});
  step = 0;
  make_step(0);
  section(0, "eval", "enter");
  run_to(9, [this] { alive(); });
  EXPECT_THAT(told, IsEmpty());
  section(0, "eval", "leave");
  run_to(18, [this] { alive(); });
  EXPECT_THAT(told, IsEmpty());
  make_step(0);
  section(0, "eval", "enter");
  run_to(60, [this] { alive(); });
  EXPECT_THAT(told, ElementsAre("28 rank 0 soft", "38 rank 0 hard"));
  EXPECT_EQ(last.what, "is in section 'eval' for 20 s");
  EXPECT_EQ(last.section, "eval");
}

TEST_F(Hang, LearnsNothingFromStepsThatBeginAndEndInOneSection) {
  begin({.heartbeat = {}, .hang = 600s});
  step = 0;
  section(0, "train", "enter");
  run_to(5, [this] { make_step(0), ++step; });
  section(0, "train", "leave");
  run_to(300);
  EXPECT_THAT(told, IsEmpty());
}

TEST_F(Hang, WatchesEachOfNestedSections) {
  begin({.heartbeat = 30s, .hang = 20s});
  section(0, "outer", "enter");
  for (int i = 0; i < 25; ++i) {
    section(0, "inner", "enter");
    run_to(i + 1, [this] { alive(); });
    section(0, "inner", "leave");
  }
  EXPECT_THAT(told, ElementsAre("10 rank 0 soft", "20 rank 0 hard"));
  EXPECT_THAT(last.what, HasSubstr("'outer'"));
}

TEST_F(Hang, LearnsOfLostSectionDatagramsFromTheHeartbeat) {
  begin({.heartbeat = 30s, .hang = 20s});
  const auto beat_in = [this](const std::string& name, int ms) {
    say(0, fmt::format(R"("type":"heartbeat","section":"{}","section_ms":{})", name, ms));
  };
  section(0, "a", "enter");
  run_to(9);
  beat_in("", 0);
  run_to(25, [&] { beat_in("", 0); });
  EXPECT_THAT(told, IsEmpty());
  beat_in("b", 6000);
  run_to(40, [&] { beat_in("b", 6000 + static_cast<int>((now - kStart - 25s) / 1ms)); });
  EXPECT_THAT(told, ElementsAre("29 rank 0 soft", "39 rank 0 hard"));
}

TEST_F(Hang, DoesNotWatchARankThatHasFinishedOrLeft) {
  begin({.heartbeat = 5s, .hang = 5s});
  step = 3;
  for (const int rank : {0, 1}) {
    beat(rank);
    make_step(rank);
  }
  say(0, R"("type":"finished")");
  watch.remove(Rank(1));
  EXPECT_EQ(watch.next_deadline(), std::nullopt);
  run_to(100);
  EXPECT_THAT(told, IsEmpty());
}

TEST_F(Hang, ExpectsNoStepsOfARankThatHasEndedThemUntilItMakesOne) {
  begin({.heartbeat = 30s, .hang = 5s});
  step = 3;
  make_step(0);
  say(0, R"("type":"idle")");
  run_to(100, [this] { alive(); });
  EXPECT_THAT(told, IsEmpty());
  make_step(0);
  run_to(110, [this] { alive(); });
  EXPECT_THAT(told, ElementsAre("103 rank 0 soft", "105 rank 0 hard"));
}

TEST_F(Hang, WatchesNothingWithLimitsOfZeroButStoppedProcesses) {
  begin({});
  step = 3;
  beat(0);
  make_step(0);
  section(0, "eval", "enter");
  run_to(10'000);
  EXPECT_THAT(told, IsEmpty());
  states[Rank(0)] = ProcessState::kStopped;
  run_to(10'010);
  EXPECT_THAT(told, ElementsAre("10004 rank 0 hard stopped"));
}

// The agent or its machine was stopped: it cannot know what its workers did meanwhile.
TEST_F(Hang, RestartsAllClocksAfterItHasOverslept) {
  begin({.heartbeat = 10s, .hang = 30s});
  step = 1;
  beat(0);
  make_step(0);
  section(1, "eval", "enter");
  states[Rank(1)] = ProcessState::kStopped;
  run_to(2);
  states.clear();
  now += 100s;
  run_to(103);
  run_to(105, [this] { alive(); });
  EXPECT_THAT(told, IsEmpty());
  run_to(150, [this] { alive(); });
  EXPECT_THAT(told, ElementsAre("118 rank 0 soft", "118 rank 1 soft", "133 rank 0 hard", "133 rank 1 hard"));
}

TEST_F(Hang, ForgetsStoppedTimeAfterItHasOverslept) {
  begin(kDefaults);
  states[Rank(1)] = ProcessState::kStopped;
  run_to(2);
  now += 100s;
  run_to(105);
  EXPECT_THAT(told, IsEmpty());
  run_to(107);
  EXPECT_THAT(told, ElementsAre("106 rank 1 hard stopped"));
}

}  // namespace
}  // namespace muster::agent
