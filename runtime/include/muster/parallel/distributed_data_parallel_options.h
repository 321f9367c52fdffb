// Options of DistributedDataParallel and its join(), and the order of its buckets.
//
// Plain values, with PyTorch's names and defaults. They must be the same on all ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace muster {

// How the gradients of a bucket are sent. kFp16Compress and kBf16Compress are PyTorch's fp16_compress_hook
// and bf16_compress_hook: they halve the bytes. A gradient is then off by at most `(ranks + 1) * u * m`,
// where m is the mean of |gradient| over the ranks, and u is 2^-11 for fp16 and 2^-8 for bf16. In fp16,
// values beyond 65504 become infinite, and values below 6e-5 times the number of ranks are less exact.
enum class CommHook { kNone, kFp16Compress, kBf16Compress };

struct DistributedDataParallelOptions {
  bool broadcast_buffers = true;  // sends rank 0's buffers to all ranks before each forward()
  std::optional<double> bucket_cap_mb = std::nullopt;  // empty: 25 MiB, and 1 MiB for the first bucket
  bool find_unused_parameters = false;
  // true: a gradient is a view of the memory that the reduction uses, so it needs no second copy. The program
  // must then call DistributedDataParallel's zero_grad() instead of the optimizer's.
  bool gradient_as_bucket_view = false;
  bool static_graph = false;
  CommHook comm_hook = CommHook::kNone;
};

struct JoinOptions {
  // true: divides gradients by the number of ranks, so that every input has the same weight over the whole
  // join. false: divides by the number of ranks that still train.
  bool divide_by_initial_world_size = true;
  bool throw_on_early_termination = false;  // all ranks throw std::runtime_error once one loop has ended
};

// Groups of parameters, given by their names. The parameters of a group are reduced together. The groups are
// in the order of reduction.
using BucketOrder = std::vector<std::vector<std::string>>;

}  // namespace muster
