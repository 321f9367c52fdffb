// Tracks which workers have not yet written their stacks, and which of those are late. For a late worker the
// caller shows what the kernel knows about its threads.
//
// The class Stacks (io/health/stacks.h) asks the workers and reads their files. One thread.
#pragma once

#include <optional>
#include <set>

#include "common/base/clock.h"
#include "common/base/ids.h"

namespace muster::agent {

class StackDump {
 public:
  static constexpr Duration kLimit = std::chrono::milliseconds(1500);

  // Call when these ranks have been asked. Some may still owe the answer to an earlier request.
  void asked(const std::set<Rank>& ranks, TimePoint now);
  // Returns true if the rank was asked; the caller should read its file. Returns false if the rank wrote its
  // stacks unasked.
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
