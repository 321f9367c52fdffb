// Knows which workers were asked for their stacks and have not written them yet, and which of these are late.
// If a worker is late, the caller shows the information that the kernel has about the worker's threads.
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

  // Call this when these ranks have been asked. Some of them may not have answered an earlier request yet.
  void asked(const std::set<Rank>& ranks, TimePoint now);
  // Returns true if the rank was asked for its stacks. The caller should then read its file. Returns false if
  // the rank has written its stacks without being asked.
  bool answered(Rank rank) { return waiting_.erase(rank) > 0; }
  void ended(Rank rank) { waiting_.erase(rank); }
  // Returns the ranks that are late. From then on they are no longer expected to answer.
  std::set<Rank> late(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

 private:
  std::set<Rank> waiting_;
  TimePoint deadline_;
};

}  // namespace muster::agent
