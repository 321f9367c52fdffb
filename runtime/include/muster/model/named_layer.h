// One layer of a model that is given as a list of layers. For example, models::resnet_layers() returns such a
// list, and PipelineLayers takes it.
//
// A NamedLayer is a plain value. A rank calls only the functions of its own layers.
#pragma once

#include <functional>
#include <string>
#include <torch/nn/modules/container/any.h>

namespace muster {

struct NamedLayer {
  // The prefix of the layer's parameters' names, without the dot: "layer1.0". It is empty if there is no
  // prefix.
  std::string name;
  std::function<torch::nn::AnyModule()> build;
};

}  // namespace muster
