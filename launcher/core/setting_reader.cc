#include "launcher/core/setting_reader.h"

#include <cmath>

#include "common/base/text.h"

namespace muster::launcher {

namespace {

// A year: more is a mistake, and nanoseconds must not overflow.
constexpr double kMostSeconds = 3.2e7;

std::optional<Duration> duration_of(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > kMostSeconds) return std::nullopt;
  return std::chrono::duration_cast<Duration>(Seconds(seconds));
}

// 90, 1.5, 90:00, 2:30:00. Of several parts all but the first are below 60.
std::optional<Duration> time_of(std::string_view text) {
  const auto parts = split(text, ':');
  if (parts.size() == 1) {
    const auto number = parse_number<double>(text);
    return number ? duration_of(*number) : std::nullopt;
  }
  if (parts.size() > 3) return std::nullopt;
  double seconds = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto number = parse_number<std::int32_t>(parts[i]);
    if (!number || *number < 0 || (i > 0 && *number > 59)) return std::nullopt;
    seconds = seconds * 60 + *number;
  }
  return duration_of(seconds);
}

}  // namespace

const Setting* SettingReader::find(std::string_view name) const {
  const auto found = settings_.find(name);
  return found == settings_.end() || found->second.values.empty() ? nullptr : &found->second;
}

void SettingReader::refuse(const Setting& setting, std::string_view what) {
  if (!error_)
    error_ = Error(ErrorCode::kInvalidArgument,
                   one_line(fmt::format("{}: {} {}", setting.source, setting.values.back(), what)));
}

void SettingReader::text(std::string_view name, std::string& value) {
  if (const Setting* setting = find(name)) value = setting->values.back();
}

void SettingReader::flag(std::string_view name, bool& value) {
  if (const Setting* setting = find(name)) value = setting->values.back() == "1";
}

void SettingReader::count(std::string_view name, std::int32_t low, std::string_view what,
                          std::int32_t& value) {
  const Setting* setting = find(name);
  if (setting == nullptr) return;
  const auto number = parse_number<std::int32_t>(setting->values.back());
  if (!number || *number < low)
    return refuse(*setting, fmt::format("is not a number of {}: give {} or more", what, low));
  value = *number;
}

void SettingReader::seconds(std::string_view name, bool may_be_zero, Duration& value) {
  const Setting* setting = find(name);
  if (setting == nullptr) return;
  const auto number = parse_number<double>(setting->values.back());
  const auto duration = number ? duration_of(*number) : std::nullopt;
  if (!duration || (*number == 0 && !may_be_zero))
    return refuse(*setting, "is not a number of seconds: give one such as 10 or 0.5");
  value = *duration;
}

void SettingReader::time(std::string_view name, std::optional<Duration>& value) {
  const Setting* setting = find(name);
  if (setting == nullptr) return;
  value = time_of(setting->values.back());
  if (!value || *value <= Duration::zero())
    refuse(*setting, "is not a time: give seconds, MM:SS or HH:MM:SS, such as 2:30:00");
}

}  // namespace muster::launcher
