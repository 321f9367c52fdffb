// Waits for the reduction of a small CPU tensor over all ranks, and returns it.
//
// Collective. Over Gloo whatever the job's device is: no order among the work of a GPU is touched.
#pragma once

#include <muster/job.h>
#include <utility>
#include <vector>

#include "runtime/control/step_time.h"

namespace muster {

inline at::Tensor all_reduced(const Job& job, at::Tensor values, c10d::ReduceOp::RedOpType op) {
  const InStepPart waiting(kCommunicatePart);
  std::vector<at::Tensor> tensors{std::move(values)};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  job.process_group()->allreduce(tensors, options)->wait();
  return tensors.front();
}

}  // namespace muster
