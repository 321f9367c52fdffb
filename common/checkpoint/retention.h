// Which checkpoints of a directory stay, and which go: a decision without effects.
//
// Its caller has looked at the directory before (catalog.h) and removes afterwards (directory.h). What is not
// surely a training's own, or may be written by another one at this moment, stays.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/wire/attempt_record.h"

namespace muster {

// What is known of a directory step-S.attempt-A.
struct KnownCheckpoint {
  CheckpointId id;
  bool committed = false;
  bool usable = false;  // committed, and its manifest can be read
  bool counts = false;  // the chain of attempts leads to it
  bool pinned = false;
  std::map<std::string, double> metrics = {};
};

struct RetentionPlan {
  // Nothing newer is touched: others may be writing it. Nothing: the newest usable one that counts.
  std::optional<CheckpointId> newest = {};
  std::size_t last = 1;     // so many of the newest stay
  std::uint64_t every = 0;  // those of every n-th step stay; 0: none for that
  std::size_t best = 0;     // so many of the best stay
  std::optional<BestBy> best_by = {};
};

struct RetentionDecision {
  CheckpointId id;
  bool stays = true;
  std::string reason;  // "one of the last 3"
};

// Better comes first; of equal ones, the later step. Those without the metric are left out.
std::vector<CheckpointId> ranked(const std::vector<KnownCheckpoint>& known, const BestBy& by);

// For each of `known`, in their order. Whatever the plan says, these stay: the newest usable one that counts,
// the one that the newest attempt resumed from, pinned ones, and those of attempts that are not in
// `attempts`.
std::vector<RetentionDecision> decide_retention(const std::vector<KnownCheckpoint>& known,
                                                const std::vector<AttemptRecord>& attempts,
                                                const RetentionPlan& plan);

// Those of the decisions that go.
std::vector<CheckpointId> to_remove(const std::vector<KnownCheckpoint>& known,
                                    const std::vector<AttemptRecord>& attempts, const RetentionPlan& plan);

}  // namespace muster
