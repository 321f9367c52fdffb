// Selects lines of the workers' output: by rank and node, by pattern, by time.
//
// Pure: the time and the zone are passed in. The files do not store times. If a line begins with a time, this
// is the line's time. Otherwise it is the time of the line before it. If no line before it has one, it is the
// time at which the file was last written.
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

// The local time of this machine, for parse_since(). parse_since() reads how long ago something was, such as
// "90s", "10m", "1h30m" or "2d". It also reads a date or a time, such as "2026-05-01" or
// "2026-05-01T12:30:05". Dates and times are local, unless "Z" or "+02:00" follows. In each case,
// parse_since() returns seconds since 1970.
struct LocalTime {
  double now = 0;
  double offset = 0;  // of local time from UTC, in seconds
};
Expected<double> parse_since(std::string_view text, const LocalTime& local);

// Returns the time that stands at the beginning of a line such as "[2026-05-01 12:30:05,123] ...".
std::optional<double> time_of_line(std::string_view line, const LocalTime& local);

// Finds the time of each line of one file. The lines must come in the order of the file.
class LineTimes {
 public:
  // `beginning` is the first part of the file, as much as the caller has of it. `written` is the time at
  // which the file was last written.
  LineTimes(std::string_view beginning, double written, const LocalTime& local);
  double of(std::string_view line, const LocalTime& local);
  // Call when the next lines were written just now.
  void now_is(double now) { current_ = now; }

 private:
  double current_;
};

// Carriage returns can overwrite a line with newer text. Returns the text that is seen at the end.
std::string_view last_version(std::string_view line);

}  // namespace muster::launcher
