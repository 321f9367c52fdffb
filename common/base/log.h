// Writes a program's messages about itself to stderr: "muster: <message>"; warnings and errors are marked,
// and coloured on a terminal.
//
// One logger per process, set up once by main. Until then, and in libraries that are used alone, it shows
// kInfo and above. Safe from any thread, but not between fork and exec.
#pragma once

#include <fmt/format.h>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace muster::log {

enum class Level { kDebug, kInfo, kWarning, kError };

// `name` is put before each line ("launch", "agent node1"). Lines below `level` are dropped. No colours on a
// pipe or with NO_COLOR.
void set_up(std::string name, Level level);
// From now on the thread that logs a line gives it, with its newline, to `writer` instead of stderr. An empty
// `writer` restores stderr.
void divert(std::function<void(std::string_view line)> writer);
bool enabled(Level level);
void write(Level level, std::string_view message);

template <class... Arguments>
void debug(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (enabled(Level::kDebug))
    write(Level::kDebug, fmt::format(format, std::forward<Arguments>(arguments)...));
}
template <class... Arguments>
void info(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (enabled(Level::kInfo)) write(Level::kInfo, fmt::format(format, std::forward<Arguments>(arguments)...));
}
template <class... Arguments>
void warning(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (enabled(Level::kWarning))
    write(Level::kWarning, fmt::format(format, std::forward<Arguments>(arguments)...));
}
template <class... Arguments>
void error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (enabled(Level::kError))
    write(Level::kError, fmt::format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace muster::log
