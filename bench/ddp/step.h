// The nets that bench/ddp trains; step.py has the same.
//
// Each makes a batch of its own for a rank: inputs and classes.
#pragma once

#include <torch/torch.h>
#include <utility>

#include "examples/fashion_mnist/net.h"

namespace muster::bench {

using Batch = std::pair<torch::Tensor, torch::Tensor>;

struct Cnn {  // of the demonstration
  static std::shared_ptr<NetImpl> make() { return std::make_shared<NetImpl>(); }
  static Batch batch() { return {torch::randn({64, 1, 28, 28}), torch::randint(10, {64})}; }
};

// Many layers with little to do: what counts is what a layer costs besides.
struct Tiny {
  static std::shared_ptr<torch::nn::SequentialImpl> make() {
    auto net = std::make_shared<torch::nn::SequentialImpl>();
    for (int layer = 0; layer < 20; ++layer) {
      net->push_back(torch::nn::Linear(32, 32));
      net->push_back(torch::nn::ReLU());
    }
    return net;
  }
  static Batch batch() { return {torch::randn({16, 32}), torch::randint(32, {16})}; }
};

// Layers of 4 MiB, with a bucket for each.
struct Wide {
  static std::shared_ptr<torch::nn::SequentialImpl> make() {
    auto net = std::make_shared<torch::nn::SequentialImpl>();
    for (int layer = 0; layer < 8; ++layer) net->push_back(torch::nn::Linear(1024, 1024));
    return net;
  }
  static Batch batch() { return {torch::randn({128, 1024}), torch::randint(1024, {128})}; }
};

}  // namespace muster::bench
