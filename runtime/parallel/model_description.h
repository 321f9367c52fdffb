// What ranks must have in common to train one model together, in words, and where two descriptions part.
//
// Plain values, no torch: what a tensor looks like is text to it. Sent from rank to rank as text too.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

// In order, what it is and what it is like: {"parameter 'conv1.weight'", "Float [8, 1, 3, 3] on cpu"}.
// Neither has a tab or the end of a line in it.
using ModelDescription = std::vector<std::pair<std::string, std::string>>;

std::string to_text(const ModelDescription& description);
ModelDescription description_from(std::string_view text);

// Of the first that differs from the front, the first thing that does; `ranks` are theirs. Nothing if all are
// equal.
std::optional<std::string> first_difference(const std::vector<ModelDescription>& descriptions,
                                            const std::vector<int>& ranks);

}  // namespace muster
