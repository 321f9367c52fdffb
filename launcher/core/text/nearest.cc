#include "launcher/core/text/nearest.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "common/base/text.h"

namespace muster::launcher {

namespace {

std::size_t distance(std::string_view left, std::string_view right) {
  const std::size_t width = right.size() + 1;
  std::vector<std::size_t> cells((left.size() + 1) * width);
  const auto cell = [&](std::size_t row, std::size_t column) -> std::size_t& {
    return cells[row * width + column];
  };
  for (std::size_t row = 0; row <= left.size(); ++row) cell(row, 0) = row;
  for (std::size_t column = 0; column <= right.size(); ++column) cell(0, column) = column;
  for (std::size_t row = 1; row <= left.size(); ++row) {
    for (std::size_t column = 1; column <= right.size(); ++column) {
      const std::size_t replaced = cell(row - 1, column - 1) + (left[row - 1] == right[column - 1] ? 0 : 1);
      std::size_t best = std::min({cell(row - 1, column) + 1, cell(row, column - 1) + 1, replaced});
      if (row > 1 && column > 1 && left[row - 1] == right[column - 2] && left[row - 2] == right[column - 1]) {
        best = std::min(best, cell(row - 2, column - 2) + 1);
      }
      cell(row, column) = best;
    }
  }
  return cell(left.size(), right.size());
}

}  // namespace

std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::optional<std::string_view> best;
  std::size_t best_distance = 0;
  for (const std::string_view candidate : candidates) {
    const std::size_t away = distance(word, candidate);
    if (!best || away < best_distance) {
      best = candidate;
      best_distance = away;
    }
  }
  if (!best || best_distance * 3 > std::max(best->size(), word.size())) return std::nullopt;
  return best;
}

std::string did_you_mean(std::string_view word, std::string_view candidates) {
  const auto near = nearest(word, split(candidates, ' '));
  return near ? fmt::format(": did you mean {}?", *near) : "";
}

}  // namespace muster::launcher
