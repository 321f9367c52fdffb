// Splits a worker's output into lines. The terminal gets whole lines, and the report of the worker's end gets
// the last lines. Log files get the output unchanged.
//
// The class Lines handles these cases:
// - If a program writes a line in pieces, the pieces are joined. (With -u, Python writes text and newline
//   separately.)
// - If a line is longer than kMaxLineBytes, it is split.
// - If a program overwrites a line with carriage returns (a progress bar), the line's final text is returned.
//   Until the line ends, its current text is returned at most once per kUpdatePeriod.
// Plain values.
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

  // Takes the bytes that the caller has read into `buffer`, from index kMaxLineBytes on. Returns all lines
  // that are now complete, each with its newline. The beginning of the first line may have come in an earlier
  // call. feed() then copies it into the room before the new bytes, so that the line is in one piece. The
  // result can be used until the next call, or until the buffer is gone.
  std::string_view feed(std::span<char> buffer, TimePoint now);
  // Call this at the end of the stream. If the last line is incomplete, returns it. Otherwise returns an
  // empty string.
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
  // this is enough for a Python traceback and the lines that native code prints after it
  static constexpr std::size_t kMaxLines = 60;
  static constexpr std::size_t kMaxBytes = 4096;  // of each line; a longer line is cut

  // Adds whole lines.
  void add(std::string_view lines);
  std::vector<std::string> lines() const;
  bool empty() const { return count_ == 0; }

 private:
  // At most 2 * kMaxLines lines. It would be slow to drop one old line for each new line. Instead, many old
  // lines are dropped at once.
  std::string text_;
  std::size_t count_ = 0;
};

}  // namespace muster::agent
