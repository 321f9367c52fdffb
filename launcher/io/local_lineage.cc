#include "launcher/io/local_lineage.h"

#include <algorithm>

#include "common/base/log.h"

namespace muster::launcher {

namespace {

using By = AttemptDenied::By;

// Returns who denied an attempt. If the error says that another launch owns the directory, this is `fence`.
// For other errors it is kDisk.
By denied_by(const Error& error, By fence) {
  return error.code() == ErrorCode::kFenced ? fence : By::kDisk;
}

}  // namespace

void LocalLineage::begin_attempt(const BeginAttempt& wish, OnBegun begun, OnDenied denied) {
  if (wish.last != Attempt()) {
    const Status newest = directory_.check_newest(wish.last);
    if (!newest) return denied({denied_by(newest.error(), By::kNewerLaunch), newest.error(), wish.question});
  }
  // When `launch` started, no other launch used the directory. But one may have begun since.
  const auto record = directory_.begin_attempt(job_id_, wish.take_over);
  if (!record) return denied({denied_by(record.error(), By::kLivingLaunch), record.error(), wish.question});
  std::optional<std::uint64_t> step;
  if (record->resume) step = record->resume->step;
  begun({record->attempt, step, wish.question});
}

void LocalLineage::newest_commit(const LookForCheckpoint& wish, OnFound found) {
  CheckpointFound answer{.question = wish.question};
  const auto committed = directory_.committed();
  if (!committed) log::warning("{}", committed.error().message());
  for (const CheckpointId& each : committed.value_or(std::vector<CheckpointId>())) {
    if (each.attempt == wish.attempt)
      answer.step = std::max(answer.step, std::optional(static_cast<std::int64_t>(each.step)));
  }
  found(answer);
}

}  // namespace muster::launcher
