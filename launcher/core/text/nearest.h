// Finds the word that a user most likely meant, to suggest it for an unknown flag or key. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace muster::launcher {

// Returns the candidate that is most similar to `word`. This is the candidate that becomes `word` by the
// fewest changes. A change inserts, deletes or replaces a letter, or swaps two neighbours. Returns nullopt if
// more than a third of the letters would have to change. The letters are those of `word` or of the candidate,
// whichever is longer.
std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> candidates);

// Returns a text such as ": did you mean best?". Returns "" if no candidate is similar to `word`.
// `candidates` are separated by spaces.
std::string did_you_mean(std::string_view word, std::string_view candidates);

}  // namespace muster::launcher
