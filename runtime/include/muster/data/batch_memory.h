// Memory for batches that a DataLoader reuses.
//
// For a new tensor of some hundred KiB, the allocator maps new memory. The kernel clears all its pages, which
// takes longer than filling the tensor. Inside a DataLoader, batch_empty() reuses memory of earlier batches.
// A batch returns its memory when the last tensor that refers to it is destroyed, at any time and in any
// thread. Safe from any thread.
#pragma once

#include <ATen/core/Tensor.h>

namespace muster {

// Returns an uninitialized contiguous CPU tensor in memory of the loader that the calling thread works for;
// the memory is page-locked if that loader pins its batches. Outside a loader, does the same as at::empty().
// For get_batch() of datasets and for collate functions.
at::Tensor batch_empty(at::IntArrayRef sizes, at::ScalarType type);

}  // namespace muster
