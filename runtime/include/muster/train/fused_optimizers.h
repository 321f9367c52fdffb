// LibTorch's Adam, AdamW and SGD whose step is one call of ATen's fused kernels for all parameters: what
// Python's optimizers do with fused=True, bit for bit, on the CPU and on GPUs.
//
//   muster::FusedAdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-3).weight_decay(0.01));
//
// Options, groups and state are LibTorch's, so that a checkpoint of torch::optim::AdamW can be gone on with
// by a FusedAdamW, and the other way round. Parameters are dense, real, and without holes in memory, and so
// are gradients; std::invalid_argument from step() otherwise. For one thread, as LibTorch's.
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
