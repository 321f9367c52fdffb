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

// `name`: starts each line ("launch", "agent node1"). Drops lines below `level`. Uses colors only on a
// terminal, and not with NO_COLOR.
void set_up(std::string name, Level level);
// From now on passes each line, with its newline, to `writer` instead of stderr. `writer` is called on the
// thread that logs the line. An empty `writer` restores stderr.
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
