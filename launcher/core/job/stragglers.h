// Which rank of an attempt is slower than the others of its group, by how long its own work of a step takes.
//
// Ranks that train together all take a step in the time of the slowest, so the time that counts is the busy
// one, without the waiting for others. It is averaged over windows of kWindowSteps reported steps of every
// rank of a group, without the longest of each: one hiccup would hide who is always slow. A rank is a
// straggler once in kWindowCount windows in a row it lay more than 3 robust sigmas (of the median absolute
// deviation) and 1.2 times above the median of its group; of two ranks, 1.5 times above the other. It is over
// after as many windows in which it did not. A rank is taken to train in the world until its first step says
// otherwise, and nothing is decided in a group before every rank of it reports. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
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
    Duration usual{};     // the median of the group; of two ranks, the other's
  };

  explicit Stragglers(std::int32_t world_size = 0);
  // A rank of this attempt has made a step in this group ("": the world). What is worth telling now: each
  // change once.
  std::vector<Change> stepped(Rank rank, const std::string& group, Duration busy);

 private:
  struct Entry {
    std::string group;
    int steps_away = 0;  // in a row with the world: a group's ranks meet all others now and then
    int count = 0;       // of steps in this window
    Duration sum{};
    Duration longest{};
    bool slower = false;     // as told
    int contrary_count = 0;  // of windows in a row that say otherwise
  };
  struct Group {
    std::vector<std::size_t> ranks;
    std::size_t full_count = 0;  // of them that have their kWindowSteps
  };
  void move(std::size_t rank, const std::string& group);
  std::vector<Change> close_window(Group& group);

  std::vector<Entry> ranks_;
  std::map<std::string, Group> groups_;  // of one rank at least
};

}  // namespace muster::launcher
