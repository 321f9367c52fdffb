// Reads settings as numbers, times and choices, and keeps the first error.
//
// A missing setting leaves the value unchanged: the default. Pure. The settings must outlive the reader.
#pragma once

#include <initializer_list>
#include <utility>

#include "launcher/core/settings/options.h"

namespace muster::launcher {

class SettingReader {
 public:
  explicit SettingReader(const Settings& settings) : settings_(settings) {}

  const Setting* find(std::string_view name) const;
  // Keeps the error "--grace: soon", followed by `what`, unless there was an error before.
  void refuse(const Setting& setting, std::string_view what);
  // Keeps the error, unless there was an error before.
  void fail(Error error);
  void text(std::string_view name, std::string& value);
  void flag(std::string_view name, bool& value);
  // A number, at least `low`. `what` names the things counted, for the message.
  void count(std::string_view name, std::int32_t low, std::string_view what, std::int32_t& value);
  void seconds(std::string_view name, bool may_be_zero, Duration& value);
  // A number of bytes, at least `low`, optionally followed by K, M, G or T in either case (powers of 1024).
  void bytes(std::string_view name, std::int64_t low, std::int64_t& value);
  // Seconds, or MM:SS, or HH:MM:SS; more than zero.
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
