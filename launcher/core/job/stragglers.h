// Which rank of an attempt is slower than the others, by how long its own work of a step takes.
//
// Ranks that train together all take a step in the time of the slowest, so the time that counts is the busy
// one, without the waiting for others. It is averaged over windows of kWindowSteps reported steps of every
// rank, without the longest of each: one hiccup would hide who is always slow. A rank is a straggler once in
// kWindowCount windows in a row it lay more than 3 robust sigmas (of the median absolute deviation) and 1.2
// times above the median of all; of two ranks, 1.5 times above the other. It is over after as many windows in
// which it did not. Nothing is decided before every rank reports. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"

namespace muster::launcher {

class Stragglers {
 public:
  static constexpr int kWindowSteps = 10;
  static constexpr int kWindowCount = 5;

  struct Change {
    Rank rank;
    bool slower = false;  // false: no longer
    Duration busy{};      // of a step, in the newest window
    Duration usual{};     // the median of all ranks; of two ranks, the other's
  };

  explicit Stragglers(std::int32_t world_size = 0) : ranks_(static_cast<std::size_t>(world_size)) {}
  // A rank of this attempt has made a step. What is worth telling now: each change once.
  std::vector<Change> stepped(Rank rank, Duration busy);

 private:
  struct Entry {
    int count = 0;  // of steps in this window
    Duration sum{};
    Duration longest{};
    bool slower = false;     // as told
    int contrary_count = 0;  // of windows in a row that say otherwise
  };
  std::vector<Change> close_window();

  std::vector<Entry> ranks_;
  std::size_t full_count_ = 0;  // of ranks that have their kWindowSteps
};

}  // namespace muster::launcher
