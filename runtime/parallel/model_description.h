// Describes as text what must be equal on all ranks that train a model together. Finds the first
// difference between descriptions.
//
// The types are plain values without torch: even a tensor is described by text. Ranks send each other
// descriptions as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

// Describes a model by entries. Each entry is a name with properties, such as {"parameter 'conv1.weight'",
// "Float [8, 1, 3, 3] on cpu"}. Neither text contains a tab or a line end.
using ModelDescription = std::vector<std::pair<std::string, std::string>>;

std::string to_text(const ModelDescription& description);
ModelDescription description_from(std::string_view text);

// Finds the first description that differs from descriptions[0], and returns a text about the first entry
// that differs. Returns nothing if all descriptions are equal. `ranks`: the rank of each description.
std::optional<std::string> first_difference(const std::vector<ModelDescription>& descriptions,
                                            const std::vector<int>& ranks);

}  // namespace muster
