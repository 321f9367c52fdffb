#include "launcher/core/restart_policy.h"

#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using Kind = RestartDecision::Kind;

constexpr TimePoint kStart{1000s};
constexpr RestartLimits kLimits{
    .max_restarts = 100, .window = 3600s, .delay = 1s, .no_progress_limit = 3, .seed = 1};

TEST(RestartPolicy, CountsRestartsWithinItsWindow) {
  RestartLimits limits = kLimits;
  limits.max_restarts = 2;
  RestartPolicy policy(limits);
  EXPECT_EQ(policy.on_failure("a", true, kStart).kind, Kind::kRestart);
  EXPECT_EQ(policy.on_failure("b", true, kStart + 1s).kind, Kind::kRestart);
  EXPECT_EQ(policy.used(kStart + 1s), 2);
  EXPECT_EQ(policy.on_failure("c", true, kStart + 2s).kind, Kind::kBudgetIsSpent);
  EXPECT_EQ(policy.on_failure("d", true, kStart + 3600s).kind, Kind::kRestart)
      << "the first no longer counts";
  EXPECT_EQ(policy.on_failure("e", true, kStart + 3600s).kind, Kind::kBudgetIsSpent);
}

TEST(RestartPolicy, GivesUpTheSameFailureWithoutACheckpoint) {
  RestartPolicy policy(kLimits);
  EXPECT_EQ(policy.on_failure("a", false, kStart).kind, Kind::kRestart);
  EXPECT_EQ(policy.on_failure("a", false, kStart).kind, Kind::kRestart);
  const RestartDecision third = policy.on_failure("a", false, kStart);
  EXPECT_EQ(third.kind, Kind::kNoProgress);
  EXPECT_EQ(third.reason, "the same failure 3 times in a row without a new checkpoint");
}

TEST(RestartPolicy, StartsCountingAnewAtAnotherFailureAndAtProgress) {
  RestartPolicy policy(kLimits);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(policy.on_failure("a", false, kStart).kind, Kind::kRestart);
    EXPECT_EQ(policy.on_failure("a", false, kStart).kind, Kind::kRestart);
    EXPECT_EQ(policy.on_failure("b", false, kStart).kind, Kind::kRestart);
  }
  for (int round = 0; round < 5; ++round)
    EXPECT_EQ(policy.on_failure("a", true, kStart).kind, Kind::kRestart);
}

TEST(RestartPolicy, FailuresThatAreAWindowApartAreNotInARow) {
  RestartPolicy policy(kLimits);
  for (int day = 0; day < 5; ++day)
    EXPECT_EQ(policy.on_failure("a", false, kStart + day * 24h).kind, Kind::kRestart);
}

TEST(RestartPolicy, PrefersTheCulpritsCodeWhenNoRestartIsLeftAnyway) {
  RestartLimits limits = kLimits;
  limits.max_restarts = 2;
  RestartPolicy policy(limits);
  policy.on_failure("a", false, kStart);
  policy.on_failure("a", false, kStart);
  EXPECT_EQ(policy.on_failure("a", false, kStart).kind, Kind::kBudgetIsSpent);
}

TEST(RestartPolicy, NeverGivesUpForWantOfProgressWithoutALimit) {
  RestartLimits limits = kLimits;
  limits.no_progress_limit = 0;
  RestartPolicy policy(limits);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(policy.on_failure("a", false, kStart).kind, Kind::kRestart);
}

TEST(RestartPolicy, WaitsLongerEachTimeButNotAtFirstNorAfterProgress) {
  RestartLimits limits = kLimits;
  limits.no_progress_limit = 0;
  RestartPolicy policy(limits);
  const auto delay = [&](bool progressed) { return policy.on_failure("a", progressed, kStart).delay; };
  EXPECT_EQ(delay(false), 0s);
  for (Duration expected = 1s; expected < 30s; expected *= 2) {
    const Duration given = delay(false);
    EXPECT_GE(given, expected * 3 / 4);
    EXPECT_LE(given, expected * 5 / 4);
  }
  for (int i = 0; i < 80; ++i) EXPECT_LE(delay(false), 30s);
  EXPECT_EQ(delay(true), 0s);
}

TEST(RestartPolicy, ForgetsItsWaitingWhenTheWindowHasPassed) {
  RestartPolicy policy(kLimits);
  policy.on_failure("a", false, kStart);
  EXPECT_GT(policy.on_failure("b", false, kStart + 1s).delay, 0s);
  EXPECT_EQ(policy.on_failure("c", false, kStart + 4000s).delay, 0s);
}

TEST(RestartPolicy, JittersByItsSeed) {
  const auto second_delay = [](std::uint64_t seed) {
    RestartLimits limits = kLimits;
    limits.seed = seed;
    RestartPolicy policy(limits);
    policy.on_failure("a", false, kStart);
    return policy.on_failure("b", false, kStart).delay;
  };
  EXPECT_EQ(second_delay(1), second_delay(1));
  EXPECT_NE(second_delay(1), second_delay(2));
}

Verdict failure(int rank, int code, const std::string& message, std::optional<std::int64_t> step = 7) {
  Verdict verdict;
  verdict.kind = Verdict::Kind::kExit;
  verdict.rank = Rank(rank);
  verdict.step = step;
  verdict.culprit.emplace();
  verdict.culprit->exit_code = code;
  verdict.culprit->message = message;
  return verdict;
}

TEST(Fingerprint, TellsFailuresApart) {
  const std::string base = fingerprint(failure(1, 3, "no\nat 0x1234"));
  EXPECT_EQ(base, fingerprint(failure(1, 3, "no\nat 0x5678"))) << "only the first line of the message";
  EXPECT_EQ(base, fingerprint(failure(2, 3, "no"))) << "all ranks fail alike, and any may be the first";
  Verdict killed = failure(1, 0, "");
  killed.culprit->signal = 9;
  Verdict other = failure(2, 0, "");
  other.culprit->signal = 9;
  EXPECT_NE(fingerprint(killed), fingerprint(other));
  EXPECT_NE(base, fingerprint(failure(1, 4, "no")));
  EXPECT_NE(base, fingerprint(failure(1, 3, "yes")));
  EXPECT_NE(base, fingerprint(failure(1, 3, "no", 8)));
  EXPECT_NE(base, fingerprint(failure(1, 3, "no", std::nullopt)));
}

}  // namespace
}  // namespace muster::launcher
