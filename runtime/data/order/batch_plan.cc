#include <muster/data/batch_plan.h>
#include <utility>

#include "common/base/check.h"

namespace muster {

std::span<const std::int64_t> IndexBatches::operator[](std::int64_t number) const {
  CHECK(number >= 0 && number < size(), "batch {} of {}", number, size());
  const auto place = static_cast<std::size_t>(number);
  return std::span(indices).subspan(static_cast<std::size_t>(offsets[place]),
                                    static_cast<std::size_t>(offsets[place + 1] - offsets[place]));
}

BatchPlan::BatchPlan(std::int64_t size, std::function<PlannedBatch(std::int64_t)> batch,
                     std::function<std::int64_t(std::int64_t)> consumed_before)
    : size_(size), batch_(std::move(batch)), consumed_before_(std::move(consumed_before)) {}

PlannedBatch BatchPlan::operator[](std::int64_t number) const {
  CHECK(number >= 0 && number < size_, "batch {} of {}", number, size_);
  return batch_(number);
}

std::int64_t BatchPlan::consumed_before(std::int64_t number) const {
  CHECK(number >= 0 && number <= size_, "batch {} of {}", number, size_);
  return consumed_before_(number);
}

std::optional<std::int64_t> BatchPlan::batch_at(std::int64_t consumed) const {
  std::int64_t first = 0;
  for (std::int64_t end = size_; first < end;) {
    const std::int64_t middle = first + (end - first) / 2;
    if (consumed_before_(middle) < consumed)
      first = middle + 1;
    else
      end = middle;
  }
  return consumed_before_(first) == consumed ? std::optional(first) : std::nullopt;
}

}  // namespace muster
