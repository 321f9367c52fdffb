// The nets that bench/ddp trains; step.py has the same nets.
//
// Each net makes a batch (inputs and classes) for a rank.
#pragma once

#include <torch/torch.h>
#include <utility>

#include "examples/fashion_mnist/net.h"

namespace muster::bench {

using Batch = std::pair<torch::Tensor, torch::Tensor>;

struct Cnn {  // the net of ./dev demo
  static std::shared_ptr<NetImpl> make() { return std::make_shared<NetImpl>(); }
  static Batch batch() { return {torch::randn({64, 1, 28, 28}), torch::randint(10, {64})}; }
};

// Many tiny layers, to measure the overhead of a layer.
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

// Layers of 4 MiB, each with its own bucket.
struct Wide {
  static std::shared_ptr<torch::nn::SequentialImpl> make() {
    auto net = std::make_shared<torch::nn::SequentialImpl>();
    for (int layer = 0; layer < 8; ++layer) net->push_back(torch::nn::Linear(1024, 1024));
    return net;
  }
  static Batch batch() { return {torch::randn({128, 1024}), torch::randint(1024, {128})}; }
};

}  // namespace muster::bench
