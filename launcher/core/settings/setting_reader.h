// Reads settings as numbers, times and choices, and keeps the first error.
//
// If a setting is missing, the value keeps its default. Pure. The settings must outlive the reader.
#pragma once

#include <initializer_list>
#include <utility>

#include "launcher/core/settings/options.h"

namespace muster::launcher {

class SettingReader {
 public:
  explicit SettingReader(const Settings& settings) : settings_(settings) {}

  const Setting* find(std::string_view name) const;
  // Keeps an error such as "--grace: soon" followed by `what`. If there is already an error, that one stays.
  void refuse(const Setting& setting, std::string_view what);
  // Keeps the error. If there is already an error, that one stays.
  void fail(Error error);
  void text(std::string_view name, std::string& value);
  void flag(std::string_view name, bool& value);
  // Reads a number that is not below `low`. `what` is a word for the things that are counted. It is used in
  // the message of an error.
  void count(std::string_view name, std::int32_t low, std::string_view what, std::int32_t& value);
  void seconds(std::string_view name, bool may_be_zero, Duration& value);
  // Reads a number of bytes that is not below `low`. K, M, G or T can follow it, in either case. They stand
  // for powers of 1024.
  void bytes(std::string_view name, std::int64_t low, std::int64_t& value);
  // Reads a time that is more than zero. It is given in seconds, or as MM:SS or HH:MM:SS.
  void time(std::string_view name, std::optional<Duration>& value);
  template <class Choice>
  void choice(std::string_view name, std::initializer_list<std::pair<std::string_view, Choice>> choices,
              Choice& value) {
    const Setting* setting = find(name);
    if (setting == nullptr) return;
    std::string names;
    for (const auto& [text, chosen] : choices) {
      if (setting->values.back() == text) {
        value = chosen;
        return;
      }
      names += fmt::format("{}{}", names.empty() ? "" : ", ", text);
    }
    refuse(*setting, fmt::format("is none of {}", names));
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  const Settings& settings_;
  std::optional<Error> error_;
};

}  // namespace muster::launcher
