// What of a worker's line may reach a terminal that many share.
//
// Colours may, and are switched off at the line's end; what moves the cursor, clears the screen, sets a title
// or rings may not: it would damage other ranks' lines. Only for a terminal; log files and pipes get the
// bytes as they are. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::launcher {

// Whether for_terminal() would leave the line as it is.
bool is_plain(std::string_view line);
// `line` ends with its newline. Without `color`, colours go too.
std::string for_terminal(std::string_view line, bool color);

}  // namespace muster::launcher
