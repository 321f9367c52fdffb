// Several ranks can print the same line at about the same time. This class makes one line of them, for a
// person at the terminal.
//
// A line waits for identical ones, but not longer than kPatience. Lines leave in the order in which the first
// of the identical ones arrived. So the lines of one rank stay in order. If more than kMaxBytes wait, the
// oldest lines leave at once. Pure: the time is passed in.
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
    TimePoint at;  // when the first of these lines arrived
  };

  void add(NodeId node, Rank rank, int stream, std::string_view text, TimePoint now);
  // Returns the next line that has waited long enough. Call it until it returns nullopt. With
  // TimePoint::max() it returns all lines.
  std::optional<Line> take(TimePoint now);
  // When take() will have a line.
  std::optional<TimePoint> next_deadline() const;

 private:
  Line take_front();

  std::deque<Line> waiting_;  // addresses of elements are stable
  std::uint64_t first_ = 0;   // number of the front line
  std::size_t waiting_bytes_ = 0;
  // For each stream and text, the numbers of the lines that wait. The index 0 is for stdout, and 1 for
  // stderr.
  std::array<std::unordered_map<std::string_view, std::deque<std::uint64_t>>, 2> numbers_;
  std::map<Rank, std::uint64_t> last_;  // number of a rank's newest line while it waits
};

// Returns the prefix of a line: "node0:2: " for one rank, "node0-1:0-6,8: " for several.
std::string line_prefix(const std::map<Rank, NodeId>& from, bool color);

}  // namespace muster::launcher
