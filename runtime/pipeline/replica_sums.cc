#include "runtime/pipeline/replica_sums.h"

#include <algorithm>
#include <fmt/format.h>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/torch.h>

#include "runtime/comm/call.h"
#include "runtime/comm/job_state.h"
#include "runtime/rank/step_time.h"

namespace muster {

namespace {

constexpr std::size_t kBroadcastBytes = std::size_t{250} << 20;

}  // namespace

ReplicaSums::ReplicaSums(const Group& replicas, const std::vector<at::Tensor>& parameters)
    : replicas_(replicas) {
  for (const at::Tensor& each : parameters) {
    if (!each.requires_grad()) continue;
    auto row = std::ranges::find_if(
        rows_, [&](const Row& known) { return known.parameters[0].scalar_type() == each.scalar_type(); });
    if (row == rows_.end()) row = rows_.insert(rows_.end(), Row());
    row->parameters.push_back(each);
  }
}

void ReplicaSums::broadcast(const std::vector<at::Tensor>& tensors) const {
  std::vector<at::Tensor> detached;
  for (const at::Tensor& each : tensors) detached.push_back(each.detach());
  if (!detached.empty())
    c10d::broadcast_coalesced(replicas_.process_group(), detached, kBroadcastBytes, /*root=*/0);
}

void ReplicaSums::begin() {
  const torch::NoGradGuard no_grad;
  step_time().meets(state_of(replicas_).key);
  for (Row& row : rows_) {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& each : row.parameters)
      flat.push_back(each.grad().defined() ? each.grad().reshape({-1})
                                           : at::zeros({each.numel()}, each.options()));
    row.sum = at::cat(flat);
    std::vector<at::Tensor> tensors{row.sum};
    row.work = replicas_.process_group()->allreduce(tensors);
  }
}

void ReplicaSums::finish() {
  const torch::NoGradGuard no_grad;
  for (Row& row : rows_) {
    if (row.work == nullptr) continue;
    {
      const InStepPart waiting(kCommunicatePart);
      try {
        row.work->wait();
      } catch (const std::exception&) {
        fail_for_peer(replicas_, "sum of a stage's gradients");
      }
    }
    row.work.reset();
    row.sum.div_(replicas_.size());
    std::int64_t begin = 0;
    for (const at::Tensor& each : row.parameters) {
      const at::Tensor mean = row.sum.narrow(0, begin, each.numel()).view(each.sizes());
      begin += each.numel();
      if (each.grad().defined())
        each.grad().copy_(mean);
      else if (mean.any().item<bool>())  // another replica used the parameter
        each.mutable_grad() = mean.clone();
    }
    row.sum = at::Tensor();
  }
}

}  // namespace muster
