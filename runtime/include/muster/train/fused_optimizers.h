// LibTorch's Adam, AdamW and SGD with a faster step(): it updates all parameters in one call of ATen's fused
// kernels. The results are bit for bit those of Python's optimizers with fused=True, on the CPU and on GPUs.
//
//   muster::FusedAdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-3).weight_decay(0.01));
//
// Options, groups and state are those of LibTorch's optimizers. So a FusedAdamW can resume from a checkpoint
// of torch::optim::AdamW, and the other way round. Parameters and gradients must be dense, real and
// contiguous in memory. Otherwise step() throws std::invalid_argument. As with LibTorch's optimizers, only
// one thread may use an object.
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
