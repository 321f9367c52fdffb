// Tracks which workers have yet to write their stacks, and which of them are late. For those the caller uses
// the kernel's view.
//
// Stacks (io/health/stacks.h) asks the workers and reads their files. One thread.
#pragma once

#include <optional>
#include <set>

#include "common/base/clock.h"
#include "common/base/ids.h"

namespace muster::agent {

class StackDump {
 public:
  static constexpr Duration kLimit = std::chrono::milliseconds(1500);

  // These ranks have now been asked, including those that have not yet answered an earlier request.
  void asked(const std::set<Rank>& ranks, TimePoint now);
  // True if an answer was expected: the caller should read the worker's file. False if it wrote its stacks
  // unasked.
  bool answered(Rank rank) { return waiting_.erase(rank) > 0; }
  void ended(Rank rank) { waiting_.erase(rank); }
  // Returns the ranks that are late, and no longer expects them to answer.
  std::set<Rank> late(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

 private:
  std::set<Rank> waiting_;
  TimePoint deadline_;
};

}  // namespace muster::agent
