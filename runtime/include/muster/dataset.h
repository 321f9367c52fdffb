// What a DataLoader reads: examples by index.
//
// get() and get_batch() are called from several threads at once, in any order, and must give the same example
// for the same index each time: that is what makes a resumed run equal to an undisturbed one. A random choice
// inside get() is therefore drawn from a generator seeded with the index, and is the same in every epoch;
// what shall differ from epoch to epoch belongs in the training loop. A Dataset outlives the loaders that
// read it.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <span>

namespace muster {

// Of any shapes and types, the same for all examples of a dataset.
struct Example {
  at::Tensor data;
  at::Tensor target;
};

// Examples stacked along a new first dimension: of examples with data [1, 28, 28] and target [], the batch
// has data [batch, 1, 28, 28] and target [batch].
struct Batch {
  at::Tensor data;
  at::Tensor target;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  // The example number `index`, 0 <= index < size(). What it throws reaches the training thread.
  virtual Example get(std::int64_t index) const = 0;
  // The examples with these indices, in this order. The default stacks get(i); override it where gathering is
  // cheaper.
  virtual Batch get_batch(std::span<const std::int64_t> indices) const;
};

}  // namespace muster
