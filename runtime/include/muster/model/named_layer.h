// A model as a list of functions that make one layer each, such as models::resnet_layers(): for
// PipelineLayers.
//
// A plain value. A rank calls only the functions of its own layers.
#pragma once

#include <functional>
#include <string>
#include <torch/nn/modules/container/any.h>

namespace muster {

struct NamedLayer {
  // "layer1.0": the prefix, before a dot, of its parameters' names. Empty: no prefix.
  std::string name;
  std::function<torch::nn::AnyModule()> build;
};

}  // namespace muster
