// The word that a user most likely meant.
//
// Used to answer an unknown flag or key with the nearest right one. Pure; no allocation to speak of.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace muster::launcher {

// The candidate with the fewest insertions, deletions, replacements and swaps of neighbours away from `word`;
// nothing when even the nearest differs in more than a third of its letters.
std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace muster::launcher
