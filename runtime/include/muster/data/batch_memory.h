// Memory for batches that a DataLoader reuses.
//
// For a new tensor of some hundred KiB, the allocator maps new memory. The kernel clears all its pages, which
// takes longer than filling the tensor. Inside a DataLoader, batch_empty() reuses memory of earlier batches.
// A batch returns its memory when the last tensor that refers to it is destroyed, at any time and in any
// thread. Any thread can call the functions.
#pragma once

#include <ATen/core/Tensor.h>

namespace muster {

// Returns an uninitialized contiguous CPU tensor. Its memory belongs to the loader that the calling thread
// works for, and is page-locked if that loader pins its batches. Outside a loader, this function does the
// same as at::empty(). Call it in get_batch() of datasets and in collate functions.
at::Tensor batch_empty(at::IntArrayRef sizes, at::ScalarType type);

}  // namespace muster
