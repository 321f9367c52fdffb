// Data that is in memory already: each sample is one row of each tensor, as torch.utils.data.TensorDataset.
//
//   muster::TensorDataset dataset(images, labels);               // samples are Example
//   muster::TensorDataset dataset(Pair{.left = a, .right = b});  // samples are Pair: [...] each
//
// Samples of get() share memory with the tensors; get_batch() copies rows into the loader's memory. Tensors
// that are not contiguous are copied once. Several threads can read it at once.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <muster/comm/detail/tensors.h>
#include <muster/data/dataset.h>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster {

namespace detail {

// Makes the tensors contiguous and returns their common number of rows. Throws std::invalid_argument, which
// names a tensor that does not fit.
std::int64_t prepare_rows(const std::vector<at::Tensor*>& tensors);
// Returns a tensor with the rows at these indices. The rows must be contiguous in memory, and all indices
// must be in range.
at::Tensor gather_rows(const at::Tensor& rows, std::span<const std::int64_t> indices);

}  // namespace detail

// `Sample` is a tensor, or a struct, tuple, vector or map of tensors. A batch of such samples has the same
// type as a single sample.
template <class SampleType = Example>
class TensorDataset : public Dataset<SampleType> {
  static_assert(std::is_same_v<Collated<SampleType>, SampleType>, "all of a sample must be tensors");

 public:
  // `rows` has the type of a sample. Each of its tensors has the values of all samples, stacked along a new
  // first dimension.
  explicit TensorDataset(SampleType rows) : rows_(std::move(rows)) {
    std::vector<at::Tensor*> tensors;
    detail::collect_tensors(rows_, tensors);
    size_ = detail::prepare_rows(tensors);
  }
  TensorDataset(at::Tensor data, at::Tensor target)
    requires std::is_same_v<SampleType, Example>
      : TensorDataset(Example{.data = std::move(data), .target = std::move(target)}) {}

  std::int64_t size() const override { return size_; }
  SampleType get(std::int64_t index) const override {
    detail::check_index(*this, index);
    return taken([index](const at::Tensor& rows) { return rows.select(0, index); });
  }
  SampleType get_batch(std::span<const std::int64_t> indices) const override {
    detail::check_indices(*this, indices);
    return taken([indices](const at::Tensor& rows) { return detail::gather_rows(rows, indices); });
  }
  std::string name() const override { return "TensorDataset"; }

 private:
  template <class Take>
  SampleType taken(const Take& take) const {
    SampleType sample = rows_;
    std::vector<at::Tensor*> tensors;
    detail::collect_tensors(sample, tensors);
    for (at::Tensor* tensor : tensors) *tensor = take(*tensor);
    return sample;
  }

  SampleType rows_;
  std::int64_t size_ = 0;
};

TensorDataset(at::Tensor, at::Tensor) -> TensorDataset<Example>;

}  // namespace muster
