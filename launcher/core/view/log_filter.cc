#include "launcher/core/view/log_filter.h"

#include <chrono>

#include "common/base/text.h"
#include "launcher/core/text/duration.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

// Takes a number from the beginning of the text. It must have exactly `digits` digits.
std::optional<int> take_digits(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  const auto number = parse_number<int>(text.substr(0, digits));
  if (!number || *number < 0 || text.front() == '-') return std::nullopt;
  text.remove_prefix(digits);
  return number;
}

bool take(std::string_view& text, std::string_view one_of) {
  if (text.empty() || one_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<double> take_date(std::string_view& text) {
  const auto year = take_digits(text, 4);
  if (!year || !take(text, "-/")) return std::nullopt;
  const auto month = take_digits(text, 2);
  if (!month || !take(text, "-/")) return std::nullopt;
  const auto day = take_digits(text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok()) return std::nullopt;
  return static_cast<double>(
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::sys_days(date).time_since_epoch())
          .count());
}

// Reads a time of day, such as "12:30", "12:30:05", "12:30:05.123" or "12:30:05,123".
std::optional<double> take_clock(std::string_view& text) {
  const auto hours = take_digits(text, 2);
  if (!hours || *hours > 23 || !take(text, ":")) return std::nullopt;
  const auto minutes = take_digits(text, 2);
  if (!minutes || *minutes > 59) return std::nullopt;
  double seconds = *hours * 3600.0 + *minutes * 60.0;
  if (!take(text, ":")) return seconds;
  const auto whole = take_digits(text, 2);
  if (!whole || *whole > 60) return std::nullopt;
  seconds += *whole;
  if (!take(text, ".,")) return seconds;
  for (double place = 0.1; !text.empty() && text.front() >= '0' && text.front() <= '9'; place /= 10) {
    seconds += place * (text.front() - '0');
    text.remove_prefix(1);
  }
  return seconds;
}

// Reads a time zone, such as "Z", "+02:00" or "-0530". If there is none, the time is local time.
double take_zone(std::string_view& text, const LocalTime& local) {
  if (take(text, "Z")) return 0;
  std::string_view rest = text;
  if (!rest.starts_with('+') && !rest.starts_with('-')) return local.offset;
  const double sign = rest.front() == '-' ? -1 : 1;
  rest.remove_prefix(1);
  const auto hours = take_digits(rest, 2);
  take(rest, ":");
  const auto minutes = take_digits(rest, 2);
  if (!hours || !minutes) return local.offset;
  text = rest;
  return sign * (*hours * 3600.0 + *minutes * 60.0);
}

// A date and time at the front of the text.
std::optional<double> take_time(std::string_view& text, const LocalTime& local) {
  const auto date = take_date(text);
  if (!date || !take(text, "T ")) return std::nullopt;
  const auto clock = take_clock(text);
  if (!clock) return std::nullopt;
  return *date + *clock - take_zone(text, local);
}

}  // namespace

Expected<Pattern> Pattern::compile(const std::string& text) {
  const std::shared_ptr<regex_t> compiled(new regex_t{}, [](regex_t* owned) {
    regfree(owned);
    delete owned;
  });
  if (const int code = regcomp(compiled.get(), text.c_str(), REG_EXTENDED | REG_NOSUB); code != 0) {
    char why[200] = "";
    regerror(code, compiled.get(), why, sizeof why);
    return failure(ErrorCode::kInvalidArgument, "--grep: {} is not an extended regular expression: {}", text,
                   why);
  }
  Pattern pattern;
  pattern.compiled_ = compiled;
  return pattern;
}

bool Pattern::matches(std::string_view line) const {
  return regexec(compiled_.get(), std::string(line).c_str(), 0, nullptr, 0) == 0;
}

Expected<double> parse_since(std::string_view text, const LocalTime& local) {
  if (const auto duration = parse_duration(text)) return local.now - in_seconds(*duration);
  std::string_view rest = text;
  if (const auto time = take_time(rest, local); time && rest.empty()) return *time;
  rest = text;
  if (const auto date = take_date(rest); date && rest.empty()) return *date - local.offset;
  return failure(ErrorCode::kInvalidArgument,
                 "--since: {} is neither a duration nor a time: give 90s, 10m, 2h, 1d or 2026-05-01T12:30",
                 text);
}

std::optional<double> time_of_line(std::string_view line, const LocalTime& local) {
  take(line, "[(<");
  return take_time(line, local);
}

LineTimes::LineTimes(std::string_view beginning, double written, const LocalTime& local) : current_(written) {
  for (const std::string_view line : split(beginning, '\n')) {
    if (const auto time = time_of_line(line, local)) {
      current_ = *time;
      return;
    }
  }
}

double LineTimes::of(std::string_view line, const LocalTime& local) {
  if (const auto time = time_of_line(line, local)) current_ = *time;
  return current_;
}

std::string_view last_version(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  return line.substr(line.rfind('\r') + 1);
}

}  // namespace muster::launcher
