#include <algorithm>
#include <muster/batch_plan.h>

#include "common/base/check.h"

namespace muster {

std::span<const std::int64_t> IndexBatches::operator[](std::int64_t number) const {
  CHECK(number >= 0 && number < size(), "batch {} of {}", number, size());
  const auto place = static_cast<std::size_t>(number);
  return std::span(indices).subspan(static_cast<std::size_t>(offsets[place]),
                                    static_cast<std::size_t>(offsets[place + 1] - offsets[place]));
}

std::int64_t BatchPlan::padding_of(std::int64_t number) const {
  CHECK(number >= 0 && number < size(), "batch {} of {}", number, size());
  return padding.empty() ? 0 : padding[static_cast<std::size_t>(number)];
}

double BatchPlan::weight_of(std::int64_t number) const {
  CHECK(number >= 0 && number < size(), "batch {} of {}", number, size());
  return weights.empty() ? 1 : weights[static_cast<std::size_t>(number)];
}

std::optional<std::int64_t> BatchPlan::batch_at(std::int64_t consumed) const {
  const auto found = std::ranges::lower_bound(global_offsets, consumed);
  if (found == global_offsets.end() || *found != consumed) return std::nullopt;
  return found - global_offsets.begin();
}

}  // namespace muster
