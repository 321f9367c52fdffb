// Finds ranks that are slower than the others of their group, by the time of their own work in a step.
//
// Ranks of a group wait for each other in every step. So a step takes the same time on each of them, and this
// time does not show which rank is slow. Therefore only busy time counts. This is the time of a rank's own
// work, without the time in which it waits for others.
// - The busy time is averaged over windows of kWindowSteps reported steps of every rank of a group. In each
//   window, the longest step of each rank is left out. Otherwise a single long step on one rank could hide
//   another rank that is always slow.
// - The limit is the median of the group plus 3 robust sigmas (median absolute deviation), but at least 1.2
//   times the median. With two ranks, it is 1.5 times the time of the other rank.
// - A rank becomes a straggler after kWindowCount windows in a row above the limit. It stops being a
//   straggler after kWindowCount windows in a row below the limit.
// - A rank counts as training in the world until its first step names another group. A window closes only
//   when every rank of the group has reported all its steps. Pure.
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
    Duration busy{};      // mean busy time of a step in the newest window
    Duration usual{};     // the median of the group; with two ranks, the lower of the two
  };

  explicit Stragglers(std::int32_t world_size = 0);
  // Call when a rank has made a step in this group. The name "" stands for the group of all ranks. Returns
  // the ranks that have become stragglers since the last call, and the ranks that have stopped being
  // stragglers.
  std::vector<Change> stepped(Rank rank, const std::string& group, Duration busy);

 private:
  struct Entry {
    std::string group;
    int steps_away = 0;  // steps in the world in a row; kWindowSteps of them move the rank there
    int count = 0;       // steps in this window
    Duration sum{};
    Duration longest{};
    bool slower = false;     // as last returned
    int contrary_count = 0;  // windows in a row that contradict `slower`
  };
  struct Group {
    std::vector<std::size_t> ranks;
    std::size_t full_count = 0;  // ranks whose window is full
  };
  void move(std::size_t rank, const std::string& group);
  std::vector<Change> close_window(Group& group);

  std::vector<Entry> ranks_;
  std::map<std::string, Group> groups_;  // each has at least one rank
};

}  // namespace muster::launcher
