#include "tests/simulation/directory.h"

namespace muster::simulation {

const Directory::Begun& Directory::begin(int launch) {
  const Attempt attempt = begun_.empty() ? Attempt(1) : begun_.back().attempt.next();
  begun_.push_back({attempt, launch, resumable()});
  return begun_.back();
}

bool Directory::commit(Attempt attempt, std::uint64_t step) {
  if (is_fenced(attempt)) return false;
  committed_[attempt] = step;
  ++commit_count_;
  return true;
}

std::optional<std::uint64_t> Directory::newest_commit_of(Attempt attempt) const {
  const auto found = committed_.find(attempt);
  return found == committed_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::uint64_t> Directory::resumable() const {
  if (begun_.empty()) return std::nullopt;
  const auto own = newest_commit_of(begun_.back().attempt);
  return own ? own : begun_.back().resume_step;
}

}  // namespace muster::simulation
