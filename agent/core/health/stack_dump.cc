#include "agent/core/health/stack_dump.h"

#include <utility>

namespace muster::agent {

void StackDump::asked(const std::set<Rank>& ranks, TimePoint now) {
  // If earlier ranks have not answered yet, their deadline also applies to the new ranks.
  if (waiting_.empty()) deadline_ = now + kLimit;
  waiting_.insert(ranks.begin(), ranks.end());
}

std::set<Rank> StackDump::late(TimePoint now) {
  if (waiting_.empty() || now < deadline_) return {};
  return std::exchange(waiting_, {});
}

std::optional<TimePoint> StackDump::next_deadline() const {
  return waiting_.empty() ? std::nullopt : std::optional(deadline_);
}

}  // namespace muster::agent
