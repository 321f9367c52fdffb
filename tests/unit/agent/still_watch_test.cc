#include "agent/core/health/still_watch.h"

#include <gmock/gmock.h>

namespace muster::agent {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(StillWatch, FindsTheInnermostFrameOfTheMainThread) {
  EXPECT_EQ(innermost_frame(
                "Process 7: python3 train.py\nPython v3.11.7 (/usr/bin/python3)\n\n"
                "Thread 9 (active): \"Thread-1 (work)\"\n    work (other.py:3)\n"
                "Thread 7 (idle): \"MainThread\"\n    recv (train.py:17)\n    <module> (train.py:30)\n"),
            "recv (train.py:17)");
  EXPECT_EQ(innermost_frame("Error: Permission denied\n"), "");
  EXPECT_EQ(innermost_frame(""), "");
}

TEST(StillWatch, KnowsWhyAMainThreadCanNeverBeSeen) {
  EXPECT_EQ(why_not_seen("Error: Permission denied (os error 13)\nTry root\n"),
            "py-spy says: Error: Permission denied (os error 13)");
  EXPECT_EQ(why_not_seen("Error: Failed to find a python interpreter\n"), "") << "it may be starting";
  EXPECT_EQ(
      why_not_seen("Python v3.11.7\n\nThread 7 (idle): \"MainThread\"\n    check_permission (a.py:7)\n"), "");
  EXPECT_EQ(processor_time("26421000 75381 12\n"), 26421us);
  EXPECT_EQ(processor_time("0 0 0\n"), std::nullopt);
  EXPECT_EQ(processor_time(""), std::nullopt);
}

// Looks at rank 0 whenever one is due.
class StillWatchTest : public testing::Test {
 protected:
  // Returns what the look says, "" for nothing. `cpu`: the time that the thread ran since the last look.
  std::string look(const std::string& frame, Duration cpu = 0ms, Duration pause = 1s) {
    now_ += pause;
    cpu_ += cpu;
    EXPECT_EQ(watch_.due({{Rank(0), 100}}, now_).size(), 1U);
    const auto stalled = watch_.seen(Rank(0), {frame, cpu_, ""}, now_);
    return stalled ? (stalled->hard ? "hard: " : "") + stalled->what : "";
  }

  TimePoint now_{1000s};
  Duration cpu_{};
  StillWatch watch_{{.hang = 10s, .ends = true}};
};

TEST_F(StillWatchTest, TellsOfARankThatStaysAtOneLineOnceAndOnceMoreAtItsLimit) {
  watch_.add(Rank(0));
  for (int i = 0; i <= 4; ++i) EXPECT_EQ(look("f (a.py:1)"), "") << i;
  EXPECT_EQ(look("f (a.py:1)"), "has been in f (a.py:1) for 5 s");
  for (int i = 6; i <= 9; ++i) EXPECT_EQ(look("f (a.py:1)"), "") << i;
  EXPECT_EQ(look("f (a.py:1)"), "hard: has been in f (a.py:1) for 10 s");
  EXPECT_EQ(look("f (a.py:1)"), "");
  EXPECT_EQ(look("f (a.py:2)"), "moved on after 11 s");
  EXPECT_EQ(look("f (a.py:1)"), "");
}

TEST_F(StillWatchTest, TakesARankThatRunsOrMovesForOneThatWorks) {
  watch_.add(Rank(0));
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(look("backward (a.py:1)", 11ms), "") << "more than a hundredth of the time";
    EXPECT_EQ(look("step (a.py:2)"), "");
  }
  for (int i = 0; i < 4; ++i) EXPECT_EQ(look("wait (a.py:3)", 9ms), "");
  EXPECT_EQ(look(""), "") << "not seen";
  watch_.pause();  // it waited for its output
  for (int i = 0; i < 3; ++i) EXPECT_EQ(look("wait (a.py:3)", 9ms), "");
  EXPECT_EQ(look("wait (a.py:3)", 9ms), "has been in wait (a.py:3) for 5 s");
}

TEST_F(StillWatchTest, CountsNoTimeInWhichItDidNotLook) {
  watch_.add(Rank(0));
  EXPECT_EQ(look("f (a.py:1)"), "");
  EXPECT_EQ(look("f (a.py:1)", 0ms, 100s), "");
  EXPECT_EQ(look("f (a.py:1)", 0ms, 100s), "");
}

TEST(StillWatch, LooksAtRanksThatReportNoStepsAndEndsNothingWithoutALimitOfTheUsers) {
  StillWatch watch({.hang = 600s});
  watch.add(Rank(0));
  watch.add(Rank(1));
  const std::map<Rank, std::int32_t> pids{{Rank(0), 100}, {Rank(1), 101}};
  TimePoint now{1000s};
  EXPECT_EQ(watch.due(pids, now), pids);
  EXPECT_THAT(watch.due(pids, now + 59s), IsEmpty());
  watch.remove(Rank(1));  // it has reported a step
  int told = 0;
  for (int i = 0; i < 30; ++i) {
    now += 60s;
    EXPECT_EQ(watch.due(pids, now).size(), 1U);
    const auto stalled = watch.seen(Rank(0), {"f (a.py:1)", {}, ""}, now);
    if (!stalled) continue;
    ++told;
    EXPECT_FALSE(stalled->hard);
    EXPECT_EQ(stalled->frame, "f (a.py:1)");
    EXPECT_THAT(stalled->what, HasSubstr("for 300 s"));
  }
  EXPECT_EQ(told, 1);
  EXPECT_THAT(StillWatch({}).due(pids, now), IsEmpty()) << "--hang-limit 0";
}

}  // namespace
}  // namespace muster::agent
