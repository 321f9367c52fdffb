// Reads the logs of a chaos training's ranks: what each rank did, and when.
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

  // The first time at which any rank of the attempt except `but` got TERM.
  std::optional<TimePoint> stopped(std::uint64_t attempt, int but) const;
  // The time at which all ranks of the first attempt after this one had resumed.
  std::optional<TimePoint> resumed_after(std::uint64_t attempt) const;
  // For the newest attempt: the number of ranks, the number that finished, and their final state if all
  // agree.
  int rank_count() const;
  int finished_count() const;
  std::string hash() const;

  // G2, G4: attempts do not overlap, each rank starts once in an attempt, and no commit is lost. In the
  // history of the checkpoints every sample is used exactly once in an epoch (not checked with a step count
  // of 0).
  void check(const CheckpointDirectory& checkpoints, std::uint64_t step_count) const;

 private:
  void check_attempts() const;
  void check_commits() const;
  void check_samples(const std::vector<AttemptRecord>& records, std::uint64_t step_count) const;
  const Ranks* ranks_of(std::uint64_t attempt) const;

  std::map<std::uint64_t, Ranks> attempts_;
};

}  // namespace muster::chaos
