#include "launcher/core/settings/setting_reader.h"

#include "common/base/text.h"
#include "launcher/core/text/duration.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

std::optional<std::int64_t> bytes_of(std::string_view text) {
  constexpr std::string_view kUnits = "KMGT";
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  const char last = text.empty() ? ' ' : text.back();
  const std::size_t unit =
      kUnits.find(last >= 'a' && last <= 'z' ? static_cast<char>(last - 'a' + 'A') : last);
  const int shift = unit == std::string_view::npos ? 0 : 10 * (static_cast<int>(unit) + 1);
  if (shift > 0) text.remove_suffix(1);
  const auto number = parse_number<std::int64_t>(text);
  if (!number || *number < 0 || *number > (kMost >> shift)) return std::nullopt;
  return *number << shift;
}

// Accepts all that parse_duration() accepts, and also 90:00 or 2:30:00. All parts except the first must be
// below 60.
std::optional<Duration> time_of(std::string_view text) {
  const auto parts = split(text, ':');
  if (parts.size() == 1) return parse_duration(text);
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
  std::string value = given_text(setting.values.back());
  if (value.starts_with(' ') || value.ends_with(' ')) value = fmt::format("'{}'", value);
  fail(Error(ErrorCode::kInvalidArgument, one_line(fmt::format("{}: {} {}", setting.source, value, what))));
}

void SettingReader::fail(Error error) {
  if (!error_) error_ = std::move(error);
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
  const auto duration = parse_duration(setting->values.back());
  if (duration == Duration::zero() && !may_be_zero)
    return refuse(*setting, "is too short: give more than 0 seconds");
  if (!duration)
    return refuse(*setting, "is not a duration: give seconds, 10 or 0.5, or one such as 10s, 5m, 1h30m");
  value = *duration;
}

void SettingReader::bytes(std::string_view name, std::int64_t low, std::int64_t& value) {
  const Setting* setting = find(name);
  if (setting == nullptr) return;
  const auto bytes = bytes_of(setting->values.back());
  constexpr std::int64_t kMebibyte = 1 << 20;
  const std::string least =
      low >= kMebibyte ? fmt::format("{}M", low / kMebibyte) : fmt::format("{}K", low >> 10);
  if (!bytes)
    return refuse(*setting,
                  fmt::format("is not a number of bytes: give {} or more, such as 512M or 2G", least));
  if (*bytes < low) return refuse(*setting, fmt::format("is too little: give {} or more", least));
  value = *bytes;
}

void SettingReader::time(std::string_view name, std::optional<Duration>& value) {
  const Setting* setting = find(name);
  if (setting == nullptr) return;
  value = time_of(setting->values.back());
  if (!value || *value <= Duration::zero())
    refuse(*setting, "is not a time: give seconds, MM:SS, HH:MM:SS or a duration, such as 2:30:00 or 2h30m");
}

}  // namespace muster::launcher
