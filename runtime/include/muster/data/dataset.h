// The source of a DataLoader's samples, by index.
//
// A sample is any type that collate.h can put together into a batch: tensors, numbers, strings; pairs,
// tuples, vectors and maps of them; and structs. Several threads read a dataset at once, in any order. A
// dataset must return the same sample for the same index each time; otherwise a resumed run differs from an
// uninterrupted one. Draw random numbers from sample_random(), which the loader seeds with its own seed, the
// epoch and the sample's place in the order. A dataset must outlive the loaders that read it.
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

// The usual sample of supervised learning. A batch has the same fields, stacked along a new first dimension:
// samples with data [1, 28, 28] and target [] make a batch with data [batch, 1, 28, 28] and target [batch].
struct Example {
  at::Tensor data;
  at::Tensor target;
};
using Batch = Example;

// A dataset whose samples have indices, as torch.utils.data.Dataset. PyTorch calls it a map-style dataset.
template <class SampleType = Example>
class Dataset {
 public:
  using Sample = SampleType;

  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  // Returns sample number `index`, from 0 to `size() - 1`. Muster's datasets throw std::out_of_range for any
  // other index. If get() throws, the training thread gets an exception that also names the dataset and the
  // index.
  virtual Sample get(std::int64_t index) const = 0;
  // Returns a batch of the samples with these indices, in this order. The batch is as default_collate() makes
  // it. PyTorch's name for this function is __getitems__. The default implementation calls get() for each
  // index, and throws std::out_of_range for an index outside the dataset. Override get_batch() if reading
  // many samples at once is cheaper, and get the batch's memory from batch_empty().
  virtual Collated<Sample> get_batch(std::span<const std::int64_t> indices) const;
  // Returns a text for messages, which describes the dataset and its origin.
  virtual std::string name() const { return "the dataset"; }
};

namespace detail {

// Call it only in an exception handler. Throws an error that names the sample and has the handled exception
// nested in it.
[[noreturn]] void rethrow_bad_sample(const std::string& dataset, std::int64_t index);

// Call it only in an exception handler. Warns that the sample is skipped, and why. Only the process's first
// 10 calls print a warning.
void warn_of_skipped(const std::string& dataset, std::int64_t index);
[[noreturn]] void refuse_index(const std::string& dataset, std::int64_t index, std::int64_t size);

// If the dataset has no sample with this index, throws std::out_of_range. The message names the dataset, the
// index and the size.
template <class Sample>
void check_index(const Dataset<Sample>& dataset, std::int64_t index) {
  if (index < 0 || index >= dataset.size()) refuse_index(dataset.name(), index, dataset.size());
}
template <class Sample>
void check_indices(const Dataset<Sample>& dataset, std::span<const std::int64_t> indices) {
  for (const std::int64_t index : indices) check_index(dataset, index);
}

// Adds the sample. If that throws, removes the parts of the sample that were added.
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

// Reads the samples and passes them to `take`. If a sample is bad and `skipped` is null, throws an error
// about it. If `skipped` is not null, leaves the sample out, and appends its place in `indices` to `skipped`.
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
