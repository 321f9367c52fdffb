// What a DataLoader reads: samples by index.
//
// A sample is any type that collate.h can put together to a batch: tensors, numbers, strings, pairs, tuples,
// vectors and maps of them, and structs of tensors. A dataset is read by several threads at once, in any
// order, and must give the same sample for the same index each time: that is what makes a resumed run equal
// to an undisturbed one. What is drawn at random comes from sample_random(), which the loader seeds by its
// own seed, the epoch and the sample's place in the order. A dataset outlives the loaders that read it.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <muster/data/collate.h>
#include <muster/data/sample_random.h>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace muster {

// The usual sample of supervised learning. A batch of them has the same fields, stacked along a new first
// dimension: of samples with data [1, 28, 28] and target [], the batch has data [batch, 1, 28, 28] and target
// [batch].
struct Example {
  at::Tensor data;
  at::Tensor target;
};
using Batch = Example;

// Map-style, as torch.utils.data.Dataset.
template <class SampleType = Example>
class Dataset {
 public:
  using Sample = SampleType;

  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  // The sample number `index`, 0 <= index < size(); datasets of Muster throw std::out_of_range for any other.
  // What it throws reaches the training thread with the dataset's name and the index.
  virtual Sample get(std::int64_t index) const = 0;
  // The samples with these indices, in this order, as default_collate() would put them together; PyTorch's
  // __getitems__. By default each comes from get(), and an index that is none is refused; override it where
  // gathering is cheaper, with batch_empty() for the memory.
  virtual Collated<Sample> get_batch(std::span<const std::int64_t> indices) const;
  // For messages: what it is and from where.
  virtual std::string name() const { return "the dataset"; }
};

namespace detail {

// Called while an exception is handled: throws what names the sample, with the exception nested in it.
[[noreturn]] void rethrow_bad_sample(const std::string& dataset, std::int64_t index);

// Called while an exception is handled: warns of the first of the samples that are left out, and says why.
void warn_of_skipped(const std::string& dataset, std::int64_t index);
[[noreturn]] void refuse_index(const std::string& dataset, std::int64_t index, std::int64_t size);

// std::out_of_range with dataset, index and size unless the dataset has this sample.
template <class Sample>
void check_index(const Dataset<Sample>& dataset, std::int64_t index) {
  if (index < 0 || index >= dataset.size()) refuse_index(dataset.name(), index, dataset.size());
}
template <class Sample>
void check_indices(const Dataset<Sample>& dataset, std::span<const std::int64_t> indices) {
  for (const std::int64_t index : indices) check_index(dataset, index);
}

// All of one sample, or nothing of it.
template <class SomeCollator, class Sample>
void add_whole(SomeCollator& collator, Sample sample, std::int64_t& count) {
  try {
    collator.add(std::move(sample));
  } catch (...) {
    collator.truncate(count);
    throw;
  }
  ++count;
}

// Bad samples go to `skipped`, by their place in `indices`; if that is null, they are thrown.
template <class Sample, class Take>
void for_each_sample(const Dataset<Sample>& dataset, std::span<const std::int64_t> indices,
                     std::vector<std::int64_t>* skipped, const Take& take) {
  const ReadSamples reading;
  for (std::size_t number = 0; number < indices.size(); ++number) {
    reading.begin(static_cast<std::int64_t>(number));
    try {
      take(dataset.get(indices[number]));
    } catch (...) {
      if (skipped == nullptr) rethrow_bad_sample(dataset.name(), indices[number]);
      warn_of_skipped(dataset.name(), indices[number]);
      skipped->push_back(static_cast<std::int64_t>(number));
    }
  }
}

template <class Sample>
Collated<Sample> collate_each(const Dataset<Sample>& dataset, std::span<const std::int64_t> indices) {
  check_indices(dataset, indices);
  Collator<Sample> collator(static_cast<std::int64_t>(indices.size()));
  std::int64_t count = 0;
  for_each_sample(dataset, indices, nullptr,
                  [&](Sample sample) { add_whole(collator, std::move(sample), count); });
  return collator.finish();
}

}  // namespace detail

template <class Sample>
Collated<Sample> Dataset<Sample>::get_batch(std::span<const std::int64_t> indices) const {
  return detail::collate_each(*this, indices);
}

}  // namespace muster
