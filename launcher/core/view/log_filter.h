// Selects lines of the workers' output: by rank and node, by pattern, by time.
//
// Pure: the time and the zone are passed in. The files do not store times. So a line's time is the one that
// it begins with, else that of the line before it, else the time of the file's last write.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <regex.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "launcher/core/text/number_ranges.h"

namespace muster::launcher {

// An extended regular expression.
class Pattern {
 public:
  static Expected<Pattern> compile(const std::string& text);
  bool matches(std::string_view line) const;

 private:
  std::shared_ptr<regex_t> compiled_;
};

// parse_since() reads "90s", "10m", "1h30m" or "2d" before now, or "2026-05-01" or "2026-05-01T12:30:05",
// which are local times unless "Z" or "+02:00" follows. It returns seconds since 1970.
struct LocalTime {
  double now = 0;
  double offset = 0;  // of local time from UTC, in seconds
};
Expected<double> parse_since(std::string_view text, const LocalTime& local);

// The time at the beginning of a line, such as "[2026-05-01 12:30:05,123] ...".
std::optional<double> time_of_line(std::string_view line, const LocalTime& local);

// The times of the lines of one file, in order.
class LineTimes {
 public:
  // `beginning`: the start of the file, as much as the caller has. `written`: time of the last write to it.
  LineTimes(std::string_view beginning, double written, const LocalTime& local);
  double of(std::string_view line, const LocalTime& local);
  // Call when the next lines were written just now.
  void now_is(double now) { current_ = now; }

 private:
  double current_;
};

// The final text of a line that carriage returns have overwritten.
std::string_view last_version(std::string_view line);

}  // namespace muster::launcher
