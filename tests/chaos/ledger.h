// What the ranks of a chaos training wrote down while they ran, read back: what was done, by whom, when.
//
// Plain values; reads the disk once. The checks fail the running test or trial (tests/invariants.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/checkpoint/directory.h"

namespace muster::chaos {

class Ledger {
 public:
  struct Line {
    std::string what;  // start, resume, step, committed, term, finish
    std::uint64_t number = 0;
    TimePoint at;
    std::vector<std::string> more;
  };
  using Ranks = std::map<int, std::vector<Line>>;

  // DIRECTORY/ledger.ATTEMPT.RANK
  explicit Ledger(const std::string& directory);

  // The first time at which a rank other than `but` of the attempt was told to stop.
  std::optional<TimePoint> stopped(std::uint64_t attempt, int but) const;
  // When all ranks of the first attempt after this one were where training goes on.
  std::optional<TimePoint> resumed_after(std::uint64_t attempt) const;
  // Of the newest attempt: how many ranks there were, how many came to the end, and with which state if it is
  // one and the same.
  int rank_count() const;
  int finished_count() const;
  std::string hash() const;

  // G2, G4: attempts one after the other, each rank once in each; no commit is lost; and in the history that
  // the checkpoints tell every sample is used exactly once an epoch
  // (not looked at with a step count of 0).
  void check(const CheckpointDirectory& checkpoints, std::uint64_t step_count) const;

 private:
  void check_attempts() const;
  void check_commits() const;
  void check_samples(const std::vector<AttemptRecord>& records, std::uint64_t step_count) const;
  const Ranks* ranks_of(std::uint64_t attempt) const;

  std::map<std::uint64_t, Ranks> attempts_;
};

}  // namespace muster::chaos
