// Identical lines of several ranks, which arrive within a moment of each other, made one: for a person who
// reads along.
//
// A line waits for its like for kPatience, never longer. Lines leave in the order in which the first of each
// came, so that what one rank printed stays in order. When more than kMaxBytes wait, the oldest leave at
// once. Pure: the time is passed in.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"

namespace muster::launcher {

class Fold {
 public:
  static constexpr Duration kPatience = std::chrono::milliseconds(50);
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

  struct Line {
    std::map<Rank, NodeId> from;
    int stream = 1;
    std::string text;
    TimePoint at;  // when the first of them came
  };

  void add(NodeId node, Rank rank, int stream, std::string_view text, TimePoint now);
  // The next line that has waited long enough, if there is one; call it until there is none. At
  // TimePoint::max() all have.
  std::optional<Line> take(TimePoint now);
  // When take() will have a line.
  std::optional<TimePoint> next_deadline() const;

 private:
  Line take_front();

  std::deque<Line> waiting_;  // an element's address does not change
  std::uint64_t first_ = 0;   // the number of the front one
  std::size_t waiting_bytes_ = 0;
  // The numbers of the lines that wait, by stream and text.
  std::array<std::unordered_map<std::string_view, std::deque<std::uint64_t>>, 2> numbers_;
  std::map<Rank, std::uint64_t> last_;  // the number of a rank's newest line, as long as it waits
};

// "node0:2: " before one rank's line, "node0-1:0-6,8: " before one of several.
std::string line_prefix(const std::map<Rank, NodeId>& from, bool color);

}  // namespace muster::launcher
