// The record that each attempt writes to the checkpoint directory when it begins. It has the attempt's
// identity, and the checkpoint from which the attempt resumes.
//
// The record is a file DIR/attempts/NNNNNN.json (docs/checkpoint_layout.md), which is never changed. This
// file converts it to text and back. Pure functions.
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
  ProcessIdentity owner;               // the process that began the attempt
  std::optional<CheckpointId> resume;  // the newest checkpoint at its beginning; empty: there is none
  bool operator==(const AttemptRecord&) const = default;
};

// Returns a text such as "job train-1 (process 4711)". If the record names no job, it is only "process 4711".
std::string owner_of(const AttemptRecord& record);

std::string encode_attempt_record(const AttemptRecord& record);

// Parses the record of attempt `expected`. Returns kCorrupt, with the reason, in these cases: the text is not
// a record; it is the record of another attempt; or the attempt says that it resumed from itself or from a
// later attempt.
Expected<AttemptRecord> parse_attempt_record(std::string_view text, Attempt expected);

}  // namespace muster
