// Cuts a worker's output into lines: whole ones for the terminal, the last few for what is told of its end.
//
// A program may write a line in pieces (Python's -u writes text and newline separately); the pieces are
// joined here. A line longer than kMaxLineBytes is cut into several. A line that its program writes over and
// over with carriage returns (a progress bar) counts as what it shows at last; until it is finished, it is a
// line every kUpdatePeriod. Plain values; the log file does not come through here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"

namespace muster::agent {

class Lines {
 public:
  static constexpr std::size_t kMaxLineBytes = std::size_t{64} << 10;  // newline included
  static constexpr Duration kUpdatePeriod = std::chrono::milliseconds(500);

  // Adds what was read, which begins at buffer[kMaxLineBytes]; the room before that is for the beginning of
  // its first line, which came earlier. Returns all lines that are complete now, each with its newline, valid
  // until the next call.
  std::string_view feed(std::span<char> buffer, TimePoint now);
  // What is left when the stream has ended, as a line; empty if nothing is.
  std::string flush();

 private:
  std::string_view take_whole(std::span<char> buffer);
  void show_update(TimePoint now);
  void append_lines(std::string_view whole);
  void append_line(std::string_view line);

  std::string rest_;       // begins a line, holds no newline
  std::string rewritten_;  // lines that feed() returns otherwise than they came
  std::string shown_;      // the last update of the line that rest_ begins
  std::optional<TimePoint> shown_at_;
};

std::uint64_t count_lines(std::string_view lines);

// The last lines of a stream, without their newlines.
class LastLines {
 public:
  static constexpr std::size_t kMaxLines = 60;    // with a traceback before what native code adds to it
  static constexpr std::size_t kMaxBytes = 4096;  // of each; the rest of a longer one is left out

  // Whole lines.
  void add(std::string_view lines);
  std::vector<std::string> lines() const;
  bool empty() const { return count_ == 0; }

 private:
  // Up to 2 * kMaxLines lines: dropping one with each that comes would take longer than all else.
  std::string text_;
  std::size_t count_ = 0;
};

}  // namespace muster::agent
