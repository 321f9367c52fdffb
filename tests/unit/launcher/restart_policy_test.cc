#include "launcher/core/job/restart_policy.h"

#include <csignal>
#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using Kind = RestartDecision::Kind;

constexpr TimePoint kPolicyStart{1000s};
constexpr RestartLimits kLimits{
    .max_restarts = 100, .window = 3600s, .delay = 1s, .no_progress_limit = 3, .seed = 1};

RestartLimits without_no_progress_limit() {
  RestartLimits limits = kLimits;
  limits.no_progress_limit = 0;
  return limits;
}

RestartLimits with_budget(std::int32_t max_restarts) {
  RestartLimits limits = kLimits;
  limits.max_restarts = max_restarts;
  return limits;
}

// A failure of the program itself, without a text.
Failure own(const std::string& what, Duration lived = 5s) {
  return {.what = what, .lived = lived};
}
Failure raised(const std::string& what, Duration lived = 5s) {
  return {.what = what, .has_text = true, .lived = lived};
}
Failure killed(Duration lived = 5s) {
  return {.from_outside = true, .what = "signal", .lived = lived};
}
Failure after_commit(Failure failure) {
  failure.committed = true;
  return failure;
}
Failure at_step(Failure failure, std::int64_t step) {
  failure.step = step;
  return failure;
}

TEST(RestartPolicy, CountsRestartsWithinItsWindow) {
  RestartPolicy policy(with_budget(2));
  EXPECT_EQ(policy.on_failure(own("a"), kPolicyStart).kind, Kind::kRestart);
  EXPECT_EQ(policy.on_failure(own("b"), kPolicyStart + 1s).kind, Kind::kRestart);
  EXPECT_EQ(policy.used(kPolicyStart + 1s), 2);
  EXPECT_EQ(policy.on_failure(own("c"), kPolicyStart + 2s).kind, Kind::kBudgetIsSpent);
  EXPECT_EQ(policy.on_failure(own("d"), kPolicyStart + 3600s).kind, Kind::kRestart)
      << "the first no longer counts";
  EXPECT_EQ(policy.on_failure(own("e"), kPolicyStart + 3600s).kind, Kind::kBudgetIsSpent);
}

// A node was lost after it had joined, before any worker was started.
Failure lost_at(TimePoint when) {
  return {.from_outside = true, .what = "node_lost", .lost_before_start = when};
}

TEST(RestartPolicy, NodesThatAreLostTogetherUseOneRestart) {
  constexpr TimePoint kLast = kPolicyStart + RestartPolicy::kTogether;
  RestartPolicy policy(with_budget(1));
  EXPECT_TRUE(policy.on_failure(killed(), kPolicyStart).counted);
  for (int i = 0; i < 9; ++i) {
    const RestartDecision decision = policy.on_failure(lost_at(kLast), kLast + i * 1s);
    EXPECT_EQ(decision.kind, Kind::kRestart);
    EXPECT_EQ(decision.delay, 0s);
    EXPECT_FALSE(decision.counted);
    EXPECT_EQ(decision.reason, "a node was lost within 10 s of restart 1 of 1 and belongs to it");
  }
  EXPECT_EQ(policy.used(kLast), 1);
  EXPECT_EQ(policy.on_failure(lost_at(kLast + 1ns), kLast + 1ns).kind, Kind::kBudgetIsSpent)
      << "the losses in between do not extend the time";
}

TEST(RestartPolicy, ALossBelongsOnlyToTheLastRestart) {
  RestartPolicy policy(with_budget(2));
  EXPECT_TRUE(policy.on_failure(lost_at(kPolicyStart), kPolicyStart).counted) << "nothing was restarted";
  EXPECT_TRUE(policy.on_failure(killed(), kPolicyStart + 1s).counted) << "workers had been started";
  EXPECT_FALSE(policy.on_failure(lost_at(kPolicyStart + 11s), kPolicyStart + 11s).counted);
  EXPECT_EQ(policy.on_failure(killed(), kPolicyStart + 11s).kind, Kind::kBudgetIsSpent);
  RestartPolicy without(with_budget(0));
  EXPECT_EQ(without.on_failure(lost_at(kPolicyStart), kPolicyStart).kind, Kind::kBudgetIsSpent);
}

TEST(RestartPolicy, GivesUpAfterTheSameFailureWithoutProgress) {
  RestartPolicy policy(kLimits);
  EXPECT_EQ(policy.on_failure(own("a"), kPolicyStart).kind, Kind::kRestart);
  EXPECT_EQ(policy.on_failure(own("a"), kPolicyStart).kind, Kind::kRestart);
  const RestartDecision third = policy.on_failure(own("a"), kPolicyStart);
  EXPECT_EQ(third.kind, Kind::kNoProgress);
  EXPECT_EQ(third.reason, "the same failure 3 times in a row without a new checkpoint or a further step");
}

// A failure of a worker before its first step.
Failure at_start(const std::string& text) {
  Failure failure = raised("exit " + text);
  failure.at_start = failure.what;
  return failure;
}

TEST(RestartPolicy, GivesUpWhenTheSameFailureComesTwiceBeforeTheFirstStep) {
  RestartPolicy policy(kLimits);
  EXPECT_EQ(policy.on_failure(at_start("a"), kPolicyStart).kind, Kind::kRestart);
  EXPECT_EQ(policy.on_failure(killed(), kPolicyStart).kind, Kind::kRestart);
  const RestartDecision second = policy.on_failure(at_start("a"), kPolicyStart);
  EXPECT_EQ(second.kind, Kind::kNoProgress);
  EXPECT_EQ(second.reason, "the same failure twice within 30 s and before a step was reported");
}

TEST(RestartPolicy, RetriesAnotherFailureOrOneAfterTraining) {
  RestartPolicy policy(kLimits);
  for (const Failure& failure :
       {at_start("a"), at_start("b"), at_start("a"), at_step(raised("exit a"), 3), at_start("a")})
    EXPECT_EQ(policy.on_failure(failure, kPolicyStart).kind, Kind::kRestart);
  RestartPolicy apart(kLimits);
  for (int day = 0; day < 3; ++day)
    EXPECT_EQ(apart.on_failure(at_start("a"), kPolicyStart + day * 24h).kind, Kind::kRestart);
  RestartPolicy without(without_no_progress_limit());
  for (int i = 0; i < 9; ++i) EXPECT_EQ(without.on_failure(at_start("a"), kPolicyStart).kind, Kind::kRestart);
}

Verdict exit_at_start(const char* line) {
  Verdict verdict;
  verdict.kind = Verdict::Kind::kExit;
  verdict.at_start = true;
  WorkerEnd& end = verdict.culprit.emplace();
  end.rank = Rank(2);
  end.exit_code = 3;
  if (*line != '\0') end.last_lines = {line};
  return verdict;
}

TEST(RestartPolicy, ComparesTheTextOfFailuresBeforeTheFirstStep) {
  const auto at_start = [](const Verdict& verdict) { return as_failure(verdict, false).at_start; };
  EXPECT_NE(at_start(exit_at_start("no such file")), "");
  EXPECT_NE(at_start(exit_at_start("no such file")), at_start(exit_at_start("another")));
  Verdict other = exit_at_start("no such file");
  other.culprit->rank = Rank(0);
  EXPECT_EQ(at_start(other), at_start(exit_at_start("no such file"))) << "whichever rank is first";
  EXPECT_EQ(at_start(exit_at_start("")), "") << "without a text, the cause may be anything";
  EXPECT_EQ(at_start(exit_at_start("Connection closed by peer")), "") << "another rank's fault";
  other.at_start = false;
  EXPECT_EQ(at_start(other), "");
  other.at_start = true;
  other.lived = RestartPolicy::kLongLife;
  EXPECT_EQ(at_start(other), "") << "most programs report no steps";
}

TEST(RestartPolicy, FailuresFromOutsideRestartAtOnceAndDoNotCountAsRepeated) {
  RestartPolicy policy(kLimits);
  for (int i = 0; i < 90; ++i) {
    const RestartDecision decision = policy.on_failure(killed(2s), kPolicyStart + i * 2s);
    ASSERT_EQ(decision.kind, Kind::kRestart) << i;
    ASSERT_EQ(decision.delay, 0s) << i;
  }
}

TEST(RestartPolicy, FailuresFromOutsideBackOffAfterThreeAttemptsOfLessThanTwoSeconds) {
  RestartPolicy policy(kLimits);
  const auto delay = [&](Duration lived) { return policy.on_failure(killed(lived), kPolicyStart).delay; };
  EXPECT_EQ(delay(1s), 0s);
  EXPECT_EQ(delay(1999ms), 0s);
  EXPECT_GE(delay(1s), 750ms);
  EXPECT_GE(delay(1s), 1500ms);
  EXPECT_EQ(delay(2s), 0s);
  EXPECT_EQ(delay(1s), 0s) << "it is the first in a row again";
}

TEST(RestartPolicy, AFailureFromOutsideDoesNotResetTheProgramsOwnFailures) {
  RestartPolicy policy(kLimits);
  policy.on_failure(raised("a"), kPolicyStart);
  policy.on_failure(killed(), kPolicyStart);
  policy.on_failure(raised("a"), kPolicyStart);
  policy.on_failure(killed(), kPolicyStart);
  EXPECT_EQ(policy.on_failure(raised("a"), kPolicyStart).kind, Kind::kNoProgress);
}

TEST(RestartPolicy, TheSameExceptionIsTheSameFailureAfterAnyTime) {
  RestartPolicy policy(kLimits);
  EXPECT_EQ(policy.on_failure(raised("a", 600s), kPolicyStart).kind, Kind::kRestart);
  EXPECT_EQ(policy.on_failure(raised("a", 600s), kPolicyStart + 600s).kind, Kind::kRestart);
  EXPECT_EQ(policy.on_failure(raised("a", 600s), kPolicyStart + 1200s).kind, Kind::kNoProgress);
}

TEST(RestartPolicy, AFailureWithoutATextIsNewIfTheAttemptLivedThirtySeconds) {
  RestartPolicy policy(kLimits);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(policy.on_failure(own("a", 30s), kPolicyStart + i * 30s).kind, Kind::kRestart) << i;
  }
  EXPECT_EQ(policy.on_failure(own("a", 29s), kPolicyStart + 700s).kind, Kind::kRestart);
  EXPECT_EQ(policy.on_failure(own("a", 29s), kPolicyStart + 700s).kind, Kind::kNoProgress);
}

TEST(RestartPolicy, ResetsItsCountAtAnotherFailureAndAtACheckpoint) {
  RestartPolicy policy(kLimits);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(policy.on_failure(own("a"), kPolicyStart).kind, Kind::kRestart);
    EXPECT_EQ(policy.on_failure(own("a"), kPolicyStart).kind, Kind::kRestart);
    EXPECT_EQ(policy.on_failure(own("b"), kPolicyStart).kind, Kind::kRestart);
  }
  for (int round = 0; round < 5; ++round)
    EXPECT_EQ(policy.on_failure(after_commit(own("a")), kPolicyStart).kind, Kind::kRestart);
}

TEST(RestartPolicy, AStepBeyondTheLastIsProgress) {
  RestartPolicy policy(kLimits);
  for (std::int64_t step = 0; step < 50; ++step)
    ASSERT_EQ(policy.on_failure(at_step(raised("a"), step), kPolicyStart).kind, Kind::kRestart) << step;
  EXPECT_EQ(policy.on_failure(at_step(raised("a"), 48), kPolicyStart).kind, Kind::kRestart);
  EXPECT_EQ(policy.on_failure(at_step(raised("a"), 49), kPolicyStart).kind, Kind::kNoProgress);
}

TEST(RestartPolicy, FailuresThatAreAWindowApartAreNotInARow) {
  RestartPolicy policy(kLimits);
  for (int day = 0; day < 5; ++day)
    EXPECT_EQ(policy.on_failure(raised("a"), kPolicyStart + day * 24h).kind, Kind::kRestart);
}

TEST(RestartPolicy, ReportsASpentBudgetRatherThanMissingProgress) {
  RestartPolicy policy(with_budget(2));
  policy.on_failure(own("a"), kPolicyStart);
  policy.on_failure(own("a"), kPolicyStart);
  EXPECT_EQ(policy.on_failure(own("a"), kPolicyStart).kind, Kind::kBudgetIsSpent);
}

TEST(RestartPolicy, NeverGivesUpForLackOfProgressWithoutALimit) {
  RestartPolicy policy(without_no_progress_limit());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(policy.on_failure(own("a"), kPolicyStart).kind, Kind::kRestart);
}

TEST(RestartPolicy, BacksOffExceptAtFirstAndAfterProgress) {
  RestartPolicy policy(without_no_progress_limit());
  const auto delay = [&](const Failure& failure) { return policy.on_failure(failure, kPolicyStart).delay; };
  EXPECT_EQ(delay(own("a")), 0s);
  for (Duration expected = 1s; expected < 30s; expected *= 2) {
    const Duration given = delay(own("a"));
    EXPECT_GE(given, expected * 3 / 4);
    EXPECT_LE(given, expected * 5 / 4);
  }
  for (int i = 0; i < 80; ++i) EXPECT_LE(delay(own("a")), 30s);
  EXPECT_EQ(delay(after_commit(own("a"))), 0s);
  EXPECT_GT(delay(own("a")), 0s);
  EXPECT_EQ(delay(raised("a", 30s)), 0s) << "it was not a loop";
}

TEST(RestartPolicy, AnyBackOffEndsAtThirtySeconds) {
  RestartLimits limits = with_budget(1000);
  limits.no_progress_limit = 0;
  limits.delay = 9000s;
  RestartPolicy policy(limits);
  policy.on_failure(own("a"), kPolicyStart);
  for (int i = 0; i < 100; ++i) {
    const Duration delay = policy.on_failure(own("a"), kPolicyStart).delay;
    ASSERT_GE(delay, 20s) << i;
    ASSERT_LE(delay, 30s) << i;
  }
}

TEST(RestartPolicy, BacksOffFromTheFirstFailedStartOn) {
  RestartPolicy policy(kLimits);
  const Failure refused{.from_outside = true, .what = "refused", .could_not_start = true};
  policy.on_failure(killed(), kPolicyStart);
  for (Duration expected = 1s; expected < 30s; expected *= 2) {
    const RestartDecision decision = policy.on_failure(refused, kPolicyStart);
    EXPECT_EQ(decision.kind, Kind::kRestart);
    EXPECT_GE(decision.delay, expected * 3 / 4);
    EXPECT_LE(decision.delay, expected * 5 / 4);
  }
}

TEST(RestartPolicy, BacksOffFromTheSecondRefusalOfANodeOn) {
  RestartPolicy policy(kLimits);
  const Failure refused{
      .from_outside = true, .what = "node_lost", .could_not_start = true, .refused_by_node = true};
  policy.on_failure(killed(), kPolicyStart);
  EXPECT_EQ(policy.on_failure(refused, kPolicyStart).delay, 0s);
  EXPECT_GE(policy.on_failure(refused, kPolicyStart).delay, 1500ms);
}

TEST(RestartPolicy, ResetsItsBackOffAfterTheWindow) {
  RestartPolicy policy(kLimits);
  policy.on_failure(own("a"), kPolicyStart);
  EXPECT_GT(policy.on_failure(own("b"), kPolicyStart + 1s).delay, 0s);
  EXPECT_EQ(policy.on_failure(own("c"), kPolicyStart + 4000s).delay, 0s);
}

TEST(RestartPolicy, DerivesItsJitterFromTheSeed) {
  const auto second_delay = [](std::uint64_t seed) {
    RestartLimits limits = kLimits;
    limits.seed = seed;
    RestartPolicy policy(limits);
    policy.on_failure(own("a"), kPolicyStart);
    return policy.on_failure(own("b"), kPolicyStart).delay;
  };
  EXPECT_EQ(second_delay(1), second_delay(1));
  EXPECT_NE(second_delay(1), second_delay(2));
}

Verdict failed(int rank, int code, const std::string& exception) {
  Verdict verdict;
  verdict.kind = Verdict::Kind::kExit;
  verdict.rank = Rank(rank);
  verdict.culprit.emplace();
  verdict.culprit->exit_code = code;
  verdict.culprit->exception = exception;
  return verdict;
}

Verdict killed_by(int signal) {
  Verdict verdict = failed(1, 0, "");
  verdict.kind = Verdict::Kind::kSignal;
  verdict.culprit->signal = signal;
  return verdict;
}

TEST(Failure, IsComparedByClassCodeAndExceptionNotByRankAndStep) {
  const auto what = [](const Verdict& verdict) { return as_failure(verdict, false).what; };
  const std::string base = what(failed(1, 3, "no"));
  EXPECT_EQ(base, what(failed(2, 3, "no"))) << "all ranks fail alike, and any may be the first";
  Verdict later = failed(1, 3, "no");
  later.step = 8;
  EXPECT_EQ(base, what(later));
  EXPECT_NE(base, what(failed(1, 4, "no")));
  EXPECT_NE(base, what(failed(1, 3, "yes")));
  EXPECT_NE(base, what(killed_by(SIGSEGV)));
  Verdict full = failed(1, 3, "no");
  full.kind = Verdict::Kind::kDiskFull;
  EXPECT_NE(base, what(full));
}

TEST(Failure, IsComparedByItsCauseWithoutTheRuntimesAdditions) {
  const auto what = [](const std::string& exception, const std::string& cause) {
    Verdict verdict = failed(1, 1, exception);
    verdict.culprit->cause = cause;
    return as_failure(verdict, false).what;
  };
  EXPECT_EQ(what("batch 1 (samples 7): no header", "no header"),
            what("batch 1 (samples 5): no header", "no header"));
  EXPECT_NE(what("batch 1 (samples 7): no header", "no header"),
            what("batch 1 (samples 7): no footer", "no footer"));
}

TEST(Failure, IsFromOutsideIfAWorkerWasKilledOrStoppedOrANodeWasLost) {
  const auto from_outside = [](const Verdict& verdict) { return as_failure(verdict, false).from_outside; };
  EXPECT_TRUE(from_outside(killed_by(SIGKILL)));
  EXPECT_TRUE(from_outside(killed_by(SIGTERM)));
  EXPECT_FALSE(from_outside(killed_by(SIGSEGV)));
  EXPECT_FALSE(from_outside(failed(1, 137, "")));
  Verdict verdict = killed_by(SIGKILL);
  verdict.kind = Verdict::Kind::kOutOfMemory;
  EXPECT_FALSE(from_outside(verdict));
  verdict = {};
  verdict.kind = Verdict::Kind::kNodeLost;
  EXPECT_TRUE(from_outside(verdict));
  verdict.kind = Verdict::Kind::kHang;
  EXPECT_FALSE(from_outside(verdict)) << "a deadlock is the program's own";
  verdict.stopped_from_outside = true;
  EXPECT_TRUE(from_outside(verdict));
}

}  // namespace
}  // namespace muster::launcher
