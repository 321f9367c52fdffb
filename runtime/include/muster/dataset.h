// What a DataLoader reads: examples by index.
//
// get() and get_batch() are called from several threads at once, in any order, and must give the same example
// for the same index each time: that is what makes a resumed run equal to an undisturbed one. Derive random
// transforms from the index and the epoch, not from a shared generator. A Dataset outlives the loaders that
// read it.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <span>

namespace muster {

struct Example {
  at::Tensor data;
  at::Tensor target;
};

// Examples stacked along a new first dimension.
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
