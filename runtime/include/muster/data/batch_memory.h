// Memory for batches that is used again and again.
//
// A fresh tensor of some hundred KiB is a fresh mapping: the kernel clears every page of it, which costs more
// than filling it. Inside a DataLoader, batch_empty() takes memory that earlier batches have given back; a
// batch's memory comes back when the last tensor that refers to it is gone, whenever and in whichever thread
// that is. Safe from any thread.
#pragma once

#include <ATen/core/Tensor.h>

namespace muster {

// An uninitialized contiguous tensor on the CPU, from the memory of the loader that the calling thread works
// for, and page-locked if that loader pins its batches. Anywhere else it is at::empty(). For get_batch() of
// datasets, and for functions that collate.
at::Tensor batch_empty(at::IntArrayRef sizes, at::ScalarType type);

}  // namespace muster
