#include <exception>
#include <fmt/core.h>
#include <iterator>
#include <muster/dataset.h>
#include <stdexcept>
#include <torch/torch.h>
#include <vector>

#include "common/base/check.h"

namespace muster {

namespace {

// Room for `count` examples like this one.
at::Tensor room_for(std::int64_t count, const at::Tensor& example) {
  std::vector<std::int64_t> shape = example.sizes().vec();
  shape.insert(shape.begin(), count);
  return at::empty(shape, example.options());
}

void place(at::Tensor& batch, std::int64_t position, const at::Tensor& example) {
  at::Tensor row = batch.select(0, position);
  // copy_ would broadcast a smaller example without a word.
  if (row.sizes() != example.sizes()) {
    throw std::runtime_error(fmt::format("its shape {} is not that of the first example of the batch, {}",
                                         c10::str(example.sizes()), c10::str(row.sizes())));
  }
  row.copy_(example);
}

}  // namespace

Batch Dataset::get_batch(std::span<const std::int64_t> indices) const {
  CHECK(!indices.empty());
  Batch batch;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    try {
      const Example example = get(indices[i]);
      if (i == 0) {
        batch = {.data = room_for(std::ssize(indices), example.data),
                 .target = room_for(std::ssize(indices), example.target)};
      }
      place(batch.data, static_cast<std::int64_t>(i), example.data);
      place(batch.target, static_cast<std::int64_t>(i), example.target);
    } catch (const std::exception& error) {
      std::throw_with_nested(
          std::runtime_error(fmt::format("cannot load example {}: {}", indices[i], error.what())));
    }
  }
  return batch;
}

}  // namespace muster
