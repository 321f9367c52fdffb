// The simulated checkpoint directory that all launches of a training share: the attempts, their launches and
// commits, and which attempts are fenced.
//
// Follows docs/checkpoint_layout.md without files: each number is taken once, taking a number fences all
// older attempts, and a fenced attempt commits nothing. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"

namespace muster::simulation {

class Directory {
 public:
  struct Begun {
    Attempt attempt;
    int launch = 0;
    std::optional<std::uint64_t> resume_step;
  };

  const Begun& begin(int launch);
  const Begun* newest() const { return begun_.empty() ? nullptr : &begun_.back(); }
  bool is_fenced(Attempt attempt) const { return newest() != nullptr && newest()->attempt > attempt; }
  // False if the attempt is fenced.
  bool commit(Attempt attempt, std::uint64_t step);
  std::optional<std::uint64_t> newest_commit_of(Attempt attempt) const;
  // The step that the next attempt would resume from.
  std::optional<std::uint64_t> resumable() const;
  const std::vector<Begun>& begun() const { return begun_; }
  int commit_count() const { return commit_count_; }

 private:
  std::vector<Begun> begun_;
  std::map<Attempt, std::uint64_t> committed_;  // the newest commit of each attempt
  int commit_count_ = 0;
};

}  // namespace muster::simulation
