#include "runtime/parallel/model_description.h"

#include <algorithm>
#include <fmt/format.h>

namespace muster {
namespace {

using Entry = ModelDescription::value_type;

const Entry* find(const ModelDescription& description, const std::string& what) {
  const auto found = std::ranges::find(description, what, &Entry::first);
  return found == description.end() ? nullptr : &*found;
}

std::string missing(const Entry& entry, int there, int here) {
  return fmt::format("{} ({}) of rank {} is missing on rank {}", entry.first, entry.second, there, here);
}

std::optional<std::string> difference(const ModelDescription& first, const ModelDescription& other,
                                      int first_rank, int rank) {
  for (std::size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
    if (i < first.size() && i < other.size() && first[i] == other[i]) continue;
    const Entry* there = i < first.size() ? find(other, first[i].first) : nullptr;
    if (i < first.size() && there == nullptr) return missing(first[i], first_rank, rank);
    if (i < other.size() && find(first, other[i].first) == nullptr)
      return missing(other[i], rank, first_rank);
    if (first[i].second != there->second)
      return fmt::format("{} is {} on rank {}, but {} on rank {}", first[i].first, first[i].second,
                         first_rank, there->second, rank);
    return fmt::format("{} of rank {} is in another place on rank {}", first[i].first, first_rank, rank);
  }
  return std::nullopt;
}

}  // namespace

std::string to_text(const ModelDescription& description) {
  std::string text;
  for (const auto& [what, like] : description) text += what + '\t' + like + '\n';
  return text;
}

ModelDescription description_from(std::string_view text) {
  ModelDescription description;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const std::size_t tab = std::min(line.find('\t'), line.size());
    description.emplace_back(line.substr(0, tab), line.substr(std::min(tab + 1, line.size())));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return description;
}

std::optional<std::string> first_difference(const std::vector<ModelDescription>& descriptions,
                                            const std::vector<int>& ranks) {
  for (std::size_t i = 1; i < descriptions.size(); ++i)
    if (auto found = difference(descriptions[0], descriptions[i], ranks[0], ranks[i])) return found;
  return std::nullopt;
}

}  // namespace muster
