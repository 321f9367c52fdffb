// The record that an attempt writes to the checkpoint directory when it begins: its identity and the
// checkpoint that it resumes from.
//
// The text form of one file DIR/attempts/NNNNNN.json (docs/checkpoint_layout.md), written once and never
// changed. Plain values.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/base/process.h"

namespace muster {

inline constexpr Attempt kFirstAttempt{1};

struct AttemptRecord {
  Attempt attempt;
  std::string job;
  ProcessIdentity owner;               // the process that began it
  std::optional<CheckpointId> resume;  // the newest checkpoint that counted then; empty: starts from nothing
  bool operator==(const AttemptRecord&) const = default;
};

// "job train-1 (process 4711)", or "process 4711" without a launcher to name the job.
std::string owner_of(const AttemptRecord& record);

std::string encode_attempt_record(const AttemptRecord& record);

// kCorrupt, with the reason, also for a record of another attempt than `expected`, or one that resumes from a
// later attempt.
Expected<AttemptRecord> parse_attempt_record(std::string_view text, Attempt expected);

}  // namespace muster
