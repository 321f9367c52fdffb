#include "common/checkpoint/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

namespace muster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

CheckpointId id(std::uint64_t step, std::uint64_t attempt = 1) {
  return {.step = step, .attempt = Attempt(attempt)};
}
KnownCheckpoint good(CheckpointId id, std::optional<double> accuracy = {}) {
  KnownCheckpoint known{.id = id, .committed = true, .usable = true, .counts = true};
  if (accuracy) known.metrics["accuracy"] = *accuracy;
  return known;
}
AttemptRecord attempt(std::uint64_t number, std::optional<CheckpointId> resume = {}) {
  return {.attempt = Attempt(number), .job = "job", .owner = {}, .resume = resume};
}
std::vector<std::uint64_t> steps_removed(const std::vector<KnownCheckpoint>& known, const RetentionPlan& plan,
                                         const std::vector<AttemptRecord>& attempts = {attempt(1)}) {
  std::vector<std::uint64_t> steps;
  for (const CheckpointId removed : to_remove(known, attempts, plan)) steps.push_back(removed.step);
  return steps;
}

TEST(Retention, KeepsTheLast) {
  const std::vector<KnownCheckpoint> known{good(id(100)), good(id(200)), good(id(300)), good(id(400))};
  EXPECT_THAT(steps_removed(known, {.last = 3}), ElementsAre(100));
  EXPECT_THAT(steps_removed(known, {.last = 1}), ElementsAre(100, 200, 300));
  EXPECT_THAT(steps_removed(known, {.last = 0}), ElementsAre(100, 200, 300))
      << "never removes the newest good one";
  EXPECT_THAT(steps_removed(known, {.last = 9}), IsEmpty());
}

TEST(Retention, AlsoKeepsEveryNthAndTheBest) {
  const std::vector<KnownCheckpoint> known{good(id(100), 0.9), good(id(200), 0.5), good(id(300), 0.95),
                                           good(id(400)),      good(id(500), 0.9), good(id(600), 0.1)};
  EXPECT_THAT(steps_removed(known, {.last = 1, .every = 200}), ElementsAre(100, 300, 500));
  EXPECT_THAT(steps_removed(known, {.last = 1, .best = 2, .best_by = BestBy{"accuracy", true}}),
              ElementsAre(100, 200, 400))
      << "keeps the later of two equal ones";
  EXPECT_THAT(steps_removed(known, {.last = 1, .best = 2, .best_by = BestBy{"accuracy", false}}),
              ElementsAre(100, 300, 400, 500));
  EXPECT_THAT(steps_removed(known, {.last = 1, .best = 2, .best_by = BestBy{"loss", false}}),
              ElementsAre(100, 200, 300, 400, 500));
}

TEST(Retention, NeverRemovesPinnedOnes) {
  std::vector<KnownCheckpoint> known{good(id(100)), good(id(200)), good(id(300))};
  known[0].pinned = true;
  EXPECT_THAT(steps_removed(known, {.last = 1}), ElementsAre(200));
}

TEST(Retention, NeverRemovesTheOneThatTheNewestAttemptResumedFrom) {
  const std::vector<KnownCheckpoint> known{good(id(100)), good(id(200)), good(id(300, 2)), good(id(400, 2))};
  EXPECT_THAT(steps_removed(known, {.last = 1}, {attempt(1), attempt(2, id(200))}), ElementsAre(100, 300));
}

TEST(Retention, KeepsCheckpointsThatMayBelongToOthers) {
  std::vector<KnownCheckpoint> known{good(id(100, 7)), good(id(200)), good(id(300))};
  known[0].counts = false;
  EXPECT_THAT(steps_removed(known, {.last = 1}), ElementsAre(200));
}

TEST(Retention, KeepsCheckpointsThatMayBeBeingWritten) {
  const std::vector<KnownCheckpoint> known{
      good(id(200)), {.id = id(300)}, {.id = id(250)}, {.id = id(100, 2)}};
  EXPECT_THAT(steps_removed(known, {.last = 1}, {attempt(1), attempt(2)}), IsEmpty());
  EXPECT_THAT(steps_removed(known, {.newest = id(300), .last = 1}), ElementsAre(250))
      << "removes one that was never committed, before the newest";
}

TEST(Retention, RemovesCheckpointsOfAnOvertakenAttemptThatDoNotCount) {
  std::vector<KnownCheckpoint> known{good(id(100)), good(id(200)), good(id(150, 2))};
  known[1].counts = false;  // committed after the takeover
  EXPECT_THAT(steps_removed(known, {.last = 2}, {attempt(1), attempt(2, id(100))}), ElementsAre(200));
}

TEST(Retention, DamagedOnesAreNotCountedAsKept) {
  std::vector<KnownCheckpoint> known{good(id(100)), good(id(200)), good(id(300)), good(id(400))};
  known[0].usable = known[2].usable = false;
  EXPECT_THAT(steps_removed(known, {.last = 2}), ElementsAre(100))
      << "200 and 400 stay as the last two; 300, between them, because it might be repaired";
}

TEST(Retention, ATrainingRemovesNoDamagedOneWhereverItIs) {
  std::vector<KnownCheckpoint> known{
      good(id(100)), good(id(200)), good(id(250)), good(id(300, 2)), {.id = id(150)}};
  known[0].usable = known[2].usable = false;
  known[2].counts = false;  // attempt 2 has skipped it
  const std::vector<AttemptRecord> attempts{attempt(1), attempt(2, id(200))};
  EXPECT_THAT(steps_removed(known, {.newest = id(300, 2), .last = 1, .damaged = true}, attempts),
              ElementsAre(150));
  const auto decisions = decide_retention(known, attempts, {.newest = id(300, 2), .last = 1});
  for (const std::size_t damaged : {0, 2})
    EXPECT_EQ(decisions[damaged],
              (RetentionDecision{known[damaged].id, false, "its manifest cannot be used"}));
}

TEST(Retention, RemovesNothingWithoutAUsableCheckpoint) {
  std::vector<KnownCheckpoint> known{good(id(100)), good(id(200))};
  known[0].usable = known[1].usable = false;
  EXPECT_THAT(steps_removed(known, {.last = 1}), IsEmpty());
}

// For random directories and plans.
TEST(Retention, NeverBreaksItsPromises) {
  std::mt19937 random(5);
  const auto below = [&](int count) {
    return static_cast<std::uint64_t>(std::uniform_int_distribution(0, count - 1)(random));
  };
  for (int tries = 0; tries < 2000; ++tries) {
    std::vector<AttemptRecord> attempts{attempt(1)};
    std::vector<KnownCheckpoint> known;
    for (std::uint64_t i = 0; i < below(12); ++i) {
      KnownCheckpoint each = good(id(1 + i * 10, 1 + below(3)), static_cast<double>(below(4)));
      each.committed = below(5) > 0;
      each.usable = each.committed && below(5) > 0;
      each.counts = below(4) > 0;
      each.pinned = below(6) == 0;
      known.push_back(each);
    }
    if (below(2) == 0)
      attempts.push_back(attempt(
          2, known.empty() ? std::nullopt : std::optional(known[below(static_cast<int>(known.size()))].id)));
    const RetentionPlan plan{.last = below(4),
                             .every = below(3) * 20,
                             .best = below(3),
                             .damaged = below(2) == 0,
                             .best_by = BestBy{"accuracy", below(2) == 0}};
    std::optional<CheckpointId> newest;
    for (const KnownCheckpoint& each : known)
      if (each.usable && each.counts &&
          (!newest || std::pair(each.id.attempt, each.id.step) > std::pair(newest->attempt, newest->step)))
        newest = each.id;
    for (const RetentionDecision& decision : decide_retention(known, attempts, plan)) {
      if (decision.stays) continue;
      EXPECT_NE(decision.id, newest);
      EXPECT_NE(attempts.back().resume, decision.id);
      EXPECT_LE(decision.id.attempt, attempts.back().attempt);
      const auto it = std::ranges::find(known, decision.id, &KnownCheckpoint::id);
      EXPECT_FALSE(it->pinned);
      EXPECT_FALSE(it->committed && !it->usable && plan.damaged);
      EXPECT_FALSE(it->usable && it->counts && plan.every > 0 && it->id.step % plan.every == 0);
    }
  }
}

}  // namespace
}  // namespace muster
