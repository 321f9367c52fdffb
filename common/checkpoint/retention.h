// Decides which checkpoints of a directory are kept. It does not remove anything itself.
//
// Before the decision, the caller reads the directory (catalog.h). After the decision, the caller removes
// checkpoints (directory.h). A checkpoint is always kept if it might belong to another training, or if
// another process might be writing it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/wire/attempt_record.h"

namespace muster {

// The facts about one directory with a name such as step-300.attempt-2.
struct KnownCheckpoint {
  CheckpointId id;
  bool committed = false;
  bool usable = false;  // committed, and its manifest can be read
  bool counts = false;  // it is in the newest attempt's chain: CheckpointDirectory::counting()
  bool pinned = false;
  std::map<std::string, double> metrics = {};
};

struct RetentionPlan {
  // All checkpoints that are newer than `newest` stay, because another process might be writing them. If
  // `newest` is empty, the newest usable checkpoint that counts takes its place.
  std::optional<CheckpointId> newest = {};
  std::size_t last = 1;     // keep this many of the newest
  std::uint64_t every = 0;  // keep those whose step is a multiple of this; 0: keep none for this reason
  std::size_t best = 0;     // keep this many of the best
  // If true, committed checkpoints that are not usable stay. A training sets this to true, because it does
  // not remove what it cannot judge.
  bool damaged = false;
  std::optional<BestBy> best_by = {};
};

struct RetentionDecision {
  CheckpointId id;
  bool stays = true;
  std::string reason;  // "one of the last 3"

  bool operator==(const RetentionDecision&) const = default;
};

// Returns the usable checkpoints that count and have the metric. The best one comes first. If two are equal,
// the one with the higher step comes first.
std::vector<CheckpointId> ranked(const std::vector<KnownCheckpoint>& known, const BestBy& by);

// Returns a decision for each of `known`, in the same order. Some checkpoints are kept whatever the plan
// says:
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
