// Shows a table on the terminal. It is drawn again and again in the same place, until the user presses q or
// Ctrl-C.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace muster::launcher {

// Draws the text that `table` returns. It does so once a second, and whenever the terminal changes its size.
// It ends if `table` returns nothing. It removes all control characters from the text, except those for
// colours.
void show_live(const std::function<std::optional<std::string>()>& table);

}  // namespace muster::launcher
