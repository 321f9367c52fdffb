// Finds the word that a user most likely meant, to suggest it for an unknown flag or key. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace muster::launcher {

// The candidate with the fewest insertions, deletions, replacements and swaps of neighbours from `word`.
// nullopt if even the nearest differs in more than a third of its letters.
std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace muster::launcher
