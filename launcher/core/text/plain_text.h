// Makes a worker's line safe for a terminal that many ranks share.
//
// Keeps colours, and switches them off at the line's end. Removes sequences that move the cursor, clear the
// screen, set a title or ring the bell: they would damage other ranks' lines. Only for terminals; log files
// and pipes get the bytes unchanged. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::launcher {

// Returns whether for_terminal() would leave the line as it is.
bool is_plain(std::string_view line);
// Returns the line in a form that is safe for a terminal. `line` ends with its newline. If `color` is false,
// colours are removed, too.
std::string for_terminal(std::string_view line, bool color);

}  // namespace muster::launcher
