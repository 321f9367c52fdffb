// Writes a program's messages about itself to stderr, as "muster: <message>". Warnings and errors are marked,
// and colored on a terminal.
//
// A process has one logger, which main() sets up. Without set_up(), as in a library that is used alone, it
// shows kInfo and above. Safe from any thread, but not between fork and exec.
#pragma once

#include <fmt/format.h>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace muster::log {

enum class Level { kDebug, kInfo, kWarning, kError };

// Each line begins with `name`, for example "launch" or "agent node1". Lines below `level` are dropped.
// Colors are used only on a terminal, and only if NO_COLOR is not set.
void set_up(std::string name, Level level);
// Sends the log elsewhere: from now on each line goes to `writer`, with its newline, and not to stderr. The
// thread that logs a line calls `writer`. If `writer` is empty, the log goes to stderr again.
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
