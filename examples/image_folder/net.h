// A small convolutional network for color images of any size and any number of classes.
//
// DistributedDataParallel keeps the running statistics of its BatchNorm layers, which are buffers, equal on
// all ranks.
#pragma once

#include <torch/torch.h>

struct NetImpl : torch::nn::Module {
  explicit NetImpl(std::int64_t classes) {
    std::int64_t channels = 3;
    for (const std::int64_t next : {16, 32, 64}) {
      layers->push_back(
          torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, next, 3).padding(1).bias(false)));
      layers->push_back(torch::nn::BatchNorm2d(next));
      layers->push_back(torch::nn::ReLU());
      layers->push_back(torch::nn::MaxPool2d(2));
      channels = next;
    }
    register_module("layers", layers);
    linear = register_module("linear", torch::nn::Linear(channels, classes));
  }
  // images [batch, 3, height, width], at least 8 high and wide, to logits [batch, classes]
  torch::Tensor forward(const torch::Tensor& images) { return linear(layers->forward(images).mean({2, 3})); }

  torch::nn::Sequential layers;
  torch::nn::Linear linear = nullptr;
};
TORCH_MODULE(Net);
