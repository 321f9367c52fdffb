// Cuts a time series into windows. The target of a window is the steps that follow it.
//
//   muster::WindowDataset dataset(series, {.length = 96, .horizon = 24});    // series [time, ...]
//
// Sample i has two tensors:
// - data [length, ...]: the steps from `i * stride` on
// - target [horizon, ...]: the steps after these
// Samples of get() share memory with the series; batches are copies. Several threads can read a dataset at
// once.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <muster/data/dataset.h>
#include <string>

namespace muster {

struct WindowDatasetOptions {
  std::int64_t length = 0;   // steps of a window; at least 1
  std::int64_t stride = 1;   // from the start of one window to the start of the next
  std::int64_t horizon = 1;  // steps to predict
};

class WindowDataset : public Dataset<> {
 public:
  // Throws std::invalid_argument, which names an option that cannot be used, or says that the series is too
  // short.
  WindowDataset(const at::Tensor& series, WindowDatasetOptions options);
  // As above, but takes the targets from `targets`, a second series of shape [time, ...]. Both series must
  // have the same number of steps.
  WindowDataset(const at::Tensor& series, const at::Tensor& targets, WindowDatasetOptions options);

  std::int64_t size() const override { return windows_.size(0); }
  Example get(std::int64_t index) const override;
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  std::string name() const override { return "WindowDataset"; }

 private:
  at::Tensor windows_;  // [n, length, ...] and [n, horizon, ...]: views
  at::Tensor targets_;
};

}  // namespace muster
