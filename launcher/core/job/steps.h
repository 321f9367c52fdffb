// The progress of a training. It has the newest step of each rank of the current attempt, and the checkpoints
// that were committed.
//
// Only this class keeps these facts. When an attempt has ended, its history keeps the last step and the
// newest checkpoint (attempt_history.h). Plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "common/base/ids.h"
#include "launcher/core/job/counts.h"

namespace muster::launcher {

class Steps {
 public:
  void begin_attempt() {
    newest_.clear();
    saved_.clear();
    committed_.reset();
  }
  void made(Rank rank, std::int64_t step) {
    std::int64_t& newest = newest_.try_emplace(rank, step).first->second;
    newest = std::max(newest, step);
  }
  // Notes that the rank has saved its part of the checkpoint of this step. If all ranks have done so, the
  // checkpoint is committed, and this returns true.
  bool saved(Rank rank, std::int64_t step, std::int32_t world_size) {
    std::set<Rank>& ranks = saved_[step];
    ranks.insert(rank);
    const bool is_whole = ranks.size() == static_cast<std::size_t>(world_size);
    if (is_whole) {
      saved_.erase(saved_.begin(), saved_.upper_bound(step));  // ranks report in order: no older step follows
      committed(step);
    } else if (saved_.size() > kMostUnfinished) {
      saved_.erase(saved_.begin());
    }
    return is_whole;
  }
  void committed(std::int64_t step) {
    ++commit_count_;
    committed_ = std::max(committed_.value_or(step), step);
    committed_ever_ = std::max(committed_ever_.value_or(step), step);
  }

  const std::map<Rank, std::int64_t>& by_rank() const { return newest_; }
  std::optional<std::int64_t> of(Rank rank) const {
    const auto found = newest_.find(rank);
    return found == newest_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<std::int64_t> newest() const {
    std::optional<std::int64_t> step;
    for (const auto& [rank, newest] : newest_) step = std::max(step, std::optional(newest));
    return step;
  }
  std::optional<std::int64_t> committed() const { return committed_; }  // in the current attempt
  std::optional<std::int64_t> committed_ever() const { return committed_ever_; }
  // Returns how many checkpoints the whole job has committed. If the number changes, there is a new
  // checkpoint.
  std::int64_t commit_count() const { return commit_count_; }

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(newest_, saved_, committed_, committed_ever_, commit_count_);
  }
  // Whether the fields that were read are consistent.
  bool restored() const {
    return is_count(commit_count_) && committed_.value_or(0) >= 0 && committed_ever_.value_or(0) >= 0 &&
           std::ranges::all_of(newest_, [](const auto& each) { return each.second >= 0; }) &&
           saved_.size() <= kMostUnfinished &&
           std::ranges::all_of(saved_, [](const auto& each) { return each.first >= 0; });
  }

 private:
  static constexpr std::size_t kMostUnfinished = 64;

  std::map<Rank, std::int64_t> newest_;
  std::map<std::int64_t, std::set<Rank>> saved_;  // incomplete checkpoints: the ranks that have saved
  std::optional<std::int64_t> committed_;
  std::optional<std::int64_t> committed_ever_;
  std::int64_t commit_count_ = 0;
};

}  // namespace muster::launcher
