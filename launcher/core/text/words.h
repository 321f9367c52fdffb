// Formats numbers, sizes, signals and shell words for messages. Pure.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <fmt/core.h>
#include <string>
#include <string_view>

#include "common/base/clock.h"

namespace muster::launcher {

inline double in_seconds(Duration duration) {
  return std::chrono::duration_cast<Seconds>(duration).count();
}

// "130 ms", "1.3 ms"
inline std::string in_milliseconds(Duration duration) {
  const double count = in_seconds(duration) * 1000;
  return fmt::format("{:.{}f} ms", count, count < 9.95 ? 1 : 0);
}

// "512 MiB", "1.5 GiB"
inline std::string size_text(std::uint64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1 << 20);
  return mebibytes < 1024 ? fmt::format("{:.0f} MiB", mebibytes)
                          : fmt::format("{:.1f} GiB", mebibytes / 1024);
}

// Like size_text(), with units for small sizes: "576 B", "40 KiB"
inline std::string small_size_text(std::uint64_t bytes) {
  if (bytes < 1 << 10) return fmt::format("{} B", bytes);
  if (bytes < 10 << 20) return fmt::format("{:.0f} KiB", static_cast<double>(bytes) / (1 << 10));
  return size_text(bytes);
}

// "SIGKILL", "signal 99"
inline std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

// "1 rank", "2 ranks"
std::string count_of(std::integral auto count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// A user's value, for a message.
inline std::string given_text(const std::string& value) {
  return value.empty() ? "(empty)" : value;
}

inline std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// Returns the word. If a shell would not read it unchanged, it is quoted.
inline std::string as_shell_word(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_of(" \t\n\"'\\$`*?[]{}()<>|&;#~!") == std::string::npos;
  if (plain) return word;
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

}  // namespace muster::launcher
