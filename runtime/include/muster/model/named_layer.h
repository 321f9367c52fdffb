// One layer of a model that is a list of layers, such as models::resnet_layers(). For PipelineLayers.
//
// A plain value. A rank calls only the functions of its own layers.
#pragma once

#include <functional>
#include <string>
#include <torch/nn/modules/container/any.h>

namespace muster {

struct NamedLayer {
  // The prefix of the layer's parameters' names, without the dot: "layer1.0". Empty: no prefix.
  std::string name;
  std::function<torch::nn::AnyModule()> build;
};

}  // namespace muster
