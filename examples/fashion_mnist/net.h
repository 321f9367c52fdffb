// A small convolutional network for 28 x 28 images of one channel: 10 classes, 207,000 parameters.
//
// Its dropout makes the result depend on each rank's random numbers, as in real networks.
#pragma once

#include <torch/torch.h>

struct NetImpl : torch::nn::Module {
  // images [batch, 1, 28, 28] to logits [batch, 10]
  torch::Tensor forward(const torch::Tensor& images) {
    auto x = torch::max_pool2d(torch::relu(conv1(images)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    return linear2(dropout(torch::relu(linear1(x.flatten(1)))));
  }

  torch::nn::Conv2d conv1 =
      register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1)));
  torch::nn::Conv2d conv2 =
      register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1)));
  torch::nn::Linear linear1 = register_module("linear1", torch::nn::Linear(32 * 7 * 7, 128));
  torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.25));
  torch::nn::Linear linear2 = register_module("linear2", torch::nn::Linear(128, 10));
};
TORCH_MODULE(Net);
