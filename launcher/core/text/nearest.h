// Finds the word that a user most likely meant, to suggest it for an unknown flag or key. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace muster::launcher {

// Returns the candidate that is most similar to `word`. This is the one that differs from `word` by the
// fewest insertions, deletions, replacements and swaps of neighbours. Returns nullopt if there are more of
// these than a third of the letters of the longer one of the two.
std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> candidates);

// Returns a text such as ": did you mean best?". Returns "" if no candidate is similar to `word`.
// `candidates` are separated by spaces.
std::string did_you_mean(std::string_view word, std::string_view candidates);

}  // namespace muster::launcher
