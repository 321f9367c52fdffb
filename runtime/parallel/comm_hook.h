// The communication hooks that DistributedDataParallelOptions::comm_hook names, and what others are made of.
//
// A hook keeps the process group. The Reducer calls it on the thread of the backward pass; what follows the
// all-reduce runs on a thread of the group.
#pragma once

#include <memory>
#include <muster/parallel/distributed_data_parallel_options.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

namespace muster {

// Null for CommHook::kNone, which is the Reducer's own way.
std::unique_ptr<c10d::CommHookInterface> make_comm_hook(CommHook hook,
                                                        const c10::intrusive_ptr<c10d::ProcessGroup>& group);

// What the Reducer itself does: divides a bucket by the number of ranks, and starts its sum.
c10::intrusive_ptr<c10::ivalue::Future> start_mean(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                   const at::Tensor& gradients);
// Of a bucket that is reduced, or is to stay as it is.
c10::intrusive_ptr<c10::ivalue::Future> finished(const at::Tensor& gradients);

}  // namespace muster
