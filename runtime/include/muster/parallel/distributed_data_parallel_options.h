// What DistributedDataParallel and its join() can be told, and the order of its buckets.
//
// Plain values, with PyTorch's names and defaults. They must be the same on all ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace muster {

// How the gradients of a bucket are sent. PyTorch's fp16_compress_hook and bf16_compress_hook: half the
// bytes, and a gradient off by at most (ranks + 1) u times the ranks' mean of |gradient|; u is 2^-11 for
// fp16, 2^-8 for bf16. Beyond 65504 fp16 is infinite; below 6e-5 times the ranks it is less exact.
enum class CommHook { kNone, kFp16Compress, kBf16Compress };

struct DistributedDataParallelOptions {
  bool broadcast_buffers = true;                       // rank 0's buffers go to all before each forward
  std::optional<double> bucket_cap_mb = std::nullopt;  // none: 25 MiB, and the first bucket 1 MiB
  bool find_unused_parameters = false;
  // Saves a copy of the gradients; then call zero_grad() of DistributedDataParallel, not the optimizer's.
  bool gradient_as_bucket_view = false;
  bool static_graph = false;
  CommHook comm_hook = CommHook::kNone;
};

struct JoinOptions {
  // True: gradients are divided by the number of ranks, so that every input weighs the same over the whole
  // join. False: by the number of ranks that still train.
  bool divide_by_initial_world_size = true;
  bool throw_on_early_termination = false;  // std::runtime_error on all ranks as soon as one has ended
};

// Which parameters, by name, are reduced together, and in which order.
using BucketOrder = std::vector<std::vector<std::string>>;

}  // namespace muster
