#include <fmt/format.h>
#include <muster/data/tensor_dataset.h>
#include <muster/data/window_dataset.h>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/data/argument.h"

namespace muster {

WindowDataset::WindowDataset(const at::Tensor& series, WindowDatasetOptions options)
    : WindowDataset(series, series, options) {}

WindowDataset::WindowDataset(const at::Tensor& series, const at::Tensor& targets,
                             WindowDatasetOptions options) {
  check_argument(options.length >= 1, "WindowDataset: length", options.length, "at least 1");
  check_argument(options.stride >= 1, "WindowDataset: stride", options.stride, "at least 1");
  check_argument(options.horizon >= 1, "WindowDataset: horizon", options.horizon, "at least 1");
  Example both{.data = series, .target = targets};
  const std::int64_t steps = detail::prepare_rows({&both.data, &both.target});
  if (steps - options.length < options.horizon) {
    throw std::invalid_argument(
        fmt::format("WindowDataset: the series has {} steps; a length of {} and a horizon of {} need {}",
                    steps, options.length, options.horizon, options.length + options.horizon));
  }
  windows_ = both.data.narrow(0, 0, steps - options.horizon)
                 .unfold(0, options.length, options.stride)
                 .movedim(-1, 1);
  targets_ = both.target.narrow(0, options.length, steps - options.length)
                 .unfold(0, options.horizon, options.stride)
                 .movedim(-1, 1);
}

Example WindowDataset::get(std::int64_t index) const {
  detail::check_index(*this, index);
  return {.data = windows_.select(0, index), .target = targets_.select(0, index)};
}

Batch WindowDataset::get_batch(std::span<const std::int64_t> indices) const {
  detail::check_indices(*this, indices);
  return {.data = detail::gather_rows(windows_, indices), .target = detail::gather_rows(targets_, indices)};
}

}  // namespace muster
