// A table on the terminal that is drawn again and again in the same place, until the user presses q or
// Ctrl-C.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace muster::launcher {

// Draws the text that `table` returns, once a second and whenever the terminal changes its size. Also ends if
// `table` returns nothing. Removes all control characters from the text but colours.
void show_live(const std::function<std::optional<std::string>()>& table);

}  // namespace muster::launcher
