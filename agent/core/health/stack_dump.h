// Gathering the stacks of all workers within a time, whatever they do: who is still expected to write its
// own, and for whom the kernel's view must do.
//
// Stacks (io/health/stacks.h) asks the workers and reads their files; StackDump only knows who is late. One
// thread.
#pragma once

#include <optional>
#include <set>

#include "common/base/clock.h"
#include "common/base/ids.h"

namespace muster::agent {

class StackDump {
 public:
  static constexpr Duration kLimit = std::chrono::milliseconds(1500);

  // These ranks have been asked now, whether or not they still owe an answer.
  void asked(const std::set<Rank>& ranks, TimePoint now);
  // True if it was expected: its file is to be read. It may have come by itself.
  bool answered(Rank rank) { return waiting_.erase(rank) > 0; }
  void ended(Rank rank) { waiting_.erase(rank); }
  // The ranks that are late; nothing is expected of them any more.
  std::set<Rank> late(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

 private:
  std::set<Rank> waiting_;
  TimePoint deadline_;
};

}  // namespace muster::agent
