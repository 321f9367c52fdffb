// Describes, as text, what must be equal on all ranks that train a model together, and finds the first
// difference between two descriptions.
//
// Plain values without torch; a tensor is described by text. Ranks send descriptions as text too.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

// In order: name and properties, such as {"parameter 'conv1.weight'", "Float [8, 1, 3, 3] on cpu"}. Neither
// contains a tab or the end of a line.
using ModelDescription = std::vector<std::pair<std::string, std::string>>;

std::string to_text(const ModelDescription& description);
ModelDescription description_from(std::string_view text);

// Names the first entry in which the first different description differs from descriptions[0]; returns
// nothing if all are equal. `ranks`: the rank of each description.
std::optional<std::string> first_difference(const std::vector<ModelDescription>& descriptions,
                                            const std::vector<int>& ranks);

}  // namespace muster
