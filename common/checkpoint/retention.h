// Decides which checkpoints of a directory to keep; has no effects.
//
// The caller reads the directory first (catalog.h) and removes checkpoints afterwards (directory.h). Keeps
// every checkpoint that might belong to another training, or that another process might be writing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/wire/attempt_record.h"

namespace muster {

// The facts about a directory step-S.attempt-A.
struct KnownCheckpoint {
  CheckpointId id;
  bool committed = false;
  bool usable = false;  // committed, and its manifest can be read
  bool counts = false;  // it is in the newest attempt's chain: CheckpointDirectory::counting()
  bool pinned = false;
  std::map<std::string, double> metrics = {};
};

struct RetentionPlan {
  // Keeps everything newer than this checkpoint, because another process might be writing it. By default this
  // is the newest usable checkpoint that counts.
  std::optional<CheckpointId> newest = {};
  std::size_t last = 1;     // keep this many of the newest
  std::uint64_t every = 0;  // keep those whose step is a multiple of this; 0: keep none for this reason
  std::size_t best = 0;     // keep this many of the best
  // Keep committed checkpoints that are not usable: a training does not remove what it cannot judge.
  bool damaged = false;
  std::optional<BestBy> best_by = {};
};

struct RetentionDecision {
  CheckpointId id;
  bool stays = true;
  std::string reason;  // "one of the last 3"

  bool operator==(const RetentionDecision&) const = default;
};

// Returns the usable checkpoints that count and have the metric: best first, equal ones by falling step.
std::vector<CheckpointId> ranked(const std::vector<KnownCheckpoint>& known, const BestBy& by);

// Returns a decision for each of `known`, in their order. Whatever the plan says, keeps:
// - the newest usable checkpoint that counts
// - the checkpoint from which the newest attempt resumed
// - pinned checkpoints
// - checkpoints of attempts that are not in `attempts`
std::vector<RetentionDecision> decide_retention(const std::vector<KnownCheckpoint>& known,
                                                const std::vector<AttemptRecord>& attempts,
                                                const RetentionPlan& plan);

// Returns the checkpoints that decide_retention() does not keep.
std::vector<CheckpointId> to_remove(const std::vector<KnownCheckpoint>& known,
                                    const std::vector<AttemptRecord>& attempts, const RetentionPlan& plan);

}  // namespace muster
