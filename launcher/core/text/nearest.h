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

// ": did you mean best?", or "" if no candidate is near. `candidates` are separated by spaces.
std::string did_you_mean(std::string_view word, std::string_view candidates);

}  // namespace muster::launcher
