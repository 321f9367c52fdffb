// A model as a list of functions that each make one layer, such as models::resnet_layers(): for
// PipelineLayers.
//
// A plain value. A rank calls the functions of the layers that it has, and no others.
#pragma once

#include <functional>
#include <string>
#include <torch/nn/modules/container/any.h>

namespace muster {

struct NamedLayer {
  // "layer1.0"; its parameters' names begin with it and a dot. Empty: they have no prefix.
  std::string name;
  std::function<torch::nn::AnyModule()> build;
};

}  // namespace muster
