// What a program of Muster says about itself, on stderr: "muster: <message>", warnings and errors marked and
// coloured on a terminal.
//
// One process-wide logger, set up once by main; before that, and in libraries used alone, kInfo and above are
// shown. Safe to call from any thread, not between fork and exec.
#pragma once

#include <fmt/format.h>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace muster::log {

enum class Level { kDebug, kInfo, kWarning, kError };

// `name` is put before each line ("launch", "agent node1"). Lines below `level` are dropped. NO_COLOR and
// pipes are respected.
void set_up(std::string name, Level level);
// From now on each line, its newline included, goes to `writer` and not to stderr; called by the thread that
// has something to say. Empty: to stderr again.
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
