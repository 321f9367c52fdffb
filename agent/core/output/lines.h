// Splits a worker's output into lines: whole lines for the terminal, and the last few for the report of its
// end.
//
// A program may write a line in pieces (Python's -u writes text and newline separately); Lines joins them. A
// line longer than kMaxLineBytes is split into several. If a program overwrites a line with carriage returns
// (a progress bar), only the final text counts; until then the line is shown once every kUpdatePeriod. Plain
// values; log files do not go through here.
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

  // Adds the bytes that the caller has read into the buffer from index kMaxLineBytes on. The room before them
  // is for the earlier beginning of their first line. Returns all lines that are now complete, each with its
  // newline; they are valid until the next call.
  std::string_view feed(std::span<char> buffer, TimePoint now);
  // Call at the end of the stream. Returns the incomplete last line, or an empty string.
  std::string flush();

 private:
  std::string_view take_whole(std::span<char> buffer);
  void show_update(TimePoint now);
  void append_lines(std::string_view whole);
  void append_line(std::string_view line);

  std::string rest_;       // the beginning of a line, without newline
  std::string rewritten_;  // lines that feed() returns with changed text
  std::string shown_;      // the last update shown of the line in rest_
  std::optional<TimePoint> shown_at_;
};

std::uint64_t count_lines(std::string_view lines);

// The last lines of a stream, without their newlines.
class LastLines {
 public:
  // enough for a traceback and the native code's output after it
  static constexpr std::size_t kMaxLines = 60;
  static constexpr std::size_t kMaxBytes = 4096;  // of each line; the rest is left out

  // Adds whole lines.
  void add(std::string_view lines);
  std::vector<std::string> lines() const;
  bool empty() const { return count_ == 0; }

 private:
  // Up to 2 * kMaxLines lines: dropping one for each new line would cost more than everything else.
  std::string text_;
  std::size_t count_ = 0;
};

}  // namespace muster::agent
