// LibTorch's Adam, AdamW and SGD with a step that is one call of ATen's fused kernels for all parameters:
// Python's optimizers with fused=True, bit for bit, on the CPU and on GPUs.
//
//   muster::FusedAdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-3).weight_decay(0.01));
//
// Options, groups and state are LibTorch's: a FusedAdamW can resume from a checkpoint of torch::optim::AdamW,
// and the other way round. Unless parameters and gradients are dense, real and contiguous in memory, step()
// throws std::invalid_argument. One thread, like LibTorch's.
#pragma once

#include <muster/checkpoint/saved_optimizer.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

namespace muster {

class FusedAdam : public torch::optim::Adam, public SavedAsTorchs {
 public:
  using Adam::Adam;
  at::Tensor step(LossClosure closure = nullptr) override;
};

class FusedAdamW : public torch::optim::AdamW, public SavedAsTorchs {
 public:
  using AdamW::AdamW;
  at::Tensor step(LossClosure closure = nullptr) override;
};

class FusedSGD : public torch::optim::SGD, public SavedAsTorchs {
 public:
  using SGD::SGD;
  at::Tensor step(LossClosure closure = nullptr) override;
};

}  // namespace muster
