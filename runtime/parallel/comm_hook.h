// Makes the communication hooks that DistributedDataParallelOptions::comm_hook names. The hooks for PowerSGD
// and post-local SGD use start_mean() and finished().
//
// A hook keeps the process group alive. The Reducer calls a hook on the thread of the backward pass; a thread
// of the group runs the code after the all-reduce.
#pragma once

#include <memory>
#include <muster/parallel/distributed_data_parallel_options.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

namespace muster {

// Returns null for CommHook::kNone. Without a hook, the Reducer sums the gradients itself.
std::unique_ptr<c10d::CommHookInterface> make_comm_hook(CommHook hook,
                                                        const c10::intrusive_ptr<c10d::ProcessGroup>& group);

// Divides a bucket by the number of ranks and starts an all-reduce, as the Reducer does without a hook.
c10::intrusive_ptr<c10::ivalue::Future> start_mean(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                   const at::Tensor& gradients);
// Returns a completed future. It is for a bucket that is already reduced, or that stays as it is.
c10::intrusive_ptr<c10::ivalue::Future> finished(const at::Tensor& gradients);

}  // namespace muster
