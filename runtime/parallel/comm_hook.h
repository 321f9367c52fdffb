// The communication hooks that DistributedDataParallelOptions::comm_hook names, and parts for other hooks.
//
// A hook keeps the process group alive. The Reducer calls a hook on the thread of the backward pass; the code
// after the all-reduce runs on a thread of the group.
#pragma once

#include <memory>
#include <muster/parallel/distributed_data_parallel_options.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

namespace muster {

// Null for CommHook::kNone: the Reducer then sums by itself.
std::unique_ptr<c10d::CommHookInterface> make_comm_hook(CommHook hook,
                                                        const c10::intrusive_ptr<c10d::ProcessGroup>& group);

// Divides a bucket by the number of ranks and starts its sum, as the Reducer itself does.
c10::intrusive_ptr<c10::ivalue::Future> start_mean(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                   const at::Tensor& gradients);
// Returns the future of a bucket that is reduced already, or stays as it is.
c10::intrusive_ptr<c10::ivalue::Future> finished(const at::Tensor& gradients);

}  // namespace muster
