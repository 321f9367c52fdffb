#include "runtime/pipeline/tied_weights.h"

#include <muster/comm/collectives.h>
#include <muster/comm/job.h>
#include <torch/torch.h>
#include <utility>

namespace muster {

namespace {

constexpr int kTiedTag = 0x6d74;

// Exchanges `own` with the other ranks that have the weight. Returns the tensors of all ranks, in the
// order of ranks.
std::vector<at::Tensor> exchanged(const Group& group, const TiedWeight& tied, const at::Tensor& own) {
  std::vector<at::Tensor> all;
  std::vector<Work> works;
  for (const int rank : tied.ranks) {
    if (rank == group.job().rank()) {
      all.push_back(own);
      continue;
    }
    all.push_back(at::empty_like(own));
    works.push_back(irecv(group, all.back(), rank, kTiedTag));
    works.push_back(isend(group, own, rank, kTiedTag));
  }
  for (Work& each : works) each.wait();
  return all;
}

}  // namespace

std::vector<at::Tensor> other_copies(const std::vector<TiedWeight>& tied) {
  std::vector<at::Tensor> copies;
  for (const TiedWeight& each : tied)
    copies.insert(copies.end(), each.here.begin() + (each.counts_elsewhere ? 0 : 1), each.here.end());
  return copies;
}

void count_sums_once(const std::vector<TiedWeight>& tied) {
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& each : other_copies(tied)) {
    if (each.grad().defined()) each.grad().zero_();
  }
}

void share_values(const Group& group, const std::vector<TiedWeight>& tied) {
  const torch::NoGradGuard no_grad;
  for (const TiedWeight& each : tied) {
    const at::Tensor& own = each.here.front();
    if (each.first_rank != group.job().rank()) {
      recv(group, own, each.first_rank, kTiedTag);
    } else {
      for (const int rank : each.ranks) {
        if (rank != each.first_rank) send(group, own, rank, kTiedTag);
      }
    }
    for (const at::Tensor& copy : each.here) copy.copy_(own);
  }
}

void sum_gradients(const Group& group, const std::vector<TiedWeight>& tied) {
  const torch::NoGradGuard no_grad;
  for (const TiedWeight& each : tied) {
    at::Tensor own = at::zeros_like(each.here.front());
    for (const at::Tensor& copy : each.here) {
      if (copy.grad().defined()) own.add_(copy.grad());
    }
    at::Tensor sum;
    for (const at::Tensor& part : exchanged(group, each, own)) sum = sum.defined() ? sum + part : part;
    for (const at::Tensor& copy : each.here) {
      if (copy.grad().defined())
        copy.grad().copy_(sum);
      else if (copy.requires_grad() && sum.any().item<bool>())  // another stage used the weight
        copy.mutable_grad() = sum.clone();
    }
  }
}

}  // namespace muster
