// Well-known networks with torchvision's parameter names and architecture, so torchvision's published weights
// load by name.
//
//   auto net = muster::models::resnet50();
//   muster::load_model(net, "resnet50.safetensors");
//   const torch::nn::Linear head(net->fc->options.in_features(), 10);
//   net->fc = net->replace_module("fc", head);
//
// Parameters and buffers have torchvision's names ("layer1.0.downsample.0.weight") and are initialized from
// the same distributions. The public members are the heads, to be replaced as above. One thread at a time
// uses a model.
#pragma once

#include <array>
#include <cstdint>
#include <muster/model/named_layer.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <vector>

namespace muster::models {

struct ResNetOptions {
  std::array<std::int64_t, 4> blocks{3, 4, 6, 3};  // of layer1 to layer4
  bool bottleneck = true;   // three convolutions and four times the output channels per block; false: two
  std::int64_t width = 64;  // channels of the first convolution
  std::int64_t classes = 1000;
};

class ResNetImpl : public torch::nn::Module {
 public:
  explicit ResNetImpl(const ResNetOptions& options = {});
  // Maps images [batch, 3, height, width] to logits [batch, classes].
  at::Tensor forward(const at::Tensor& images);

  torch::nn::Linear fc = nullptr;

 private:
  torch::nn::Sequential start_ = nullptr;  // the layers before the blocks
  std::vector<torch::nn::Sequential> layers_;
};
TORCH_MODULE(ResNet);

ResNet resnet18(std::int64_t classes = 1000);
ResNet resnet34(std::int64_t classes = 1000);
ResNet resnet50(std::int64_t classes = 1000);

// Returns a ResNet as a list for a pipeline: the layers before the blocks, each block, and the layers after
// the blocks. PipelineLayers(resnet_layers(options), seed) makes stages of it.
std::vector<NamedLayer> resnet_layers(const ResNetOptions& options);

struct VGGOptions {
  int layers = 16;  // layers with weights: 11, 13, 16 or 19; else throws std::invalid_argument
  bool batch_norm = false;
  std::int64_t hidden = 4096;  // width of the head's two hidden layers
  double dropout = 0.5;
  std::int64_t classes = 1000;
};

class VGGImpl : public torch::nn::Module {
 public:
  explicit VGGImpl(const VGGOptions& options = {});
  // Maps images [batch, 3, height, width] to logits [batch, classes]. Height and width must be at least 32.
  at::Tensor forward(const at::Tensor& images);

  torch::nn::Sequential classifier = nullptr;

 private:
  torch::nn::Sequential features_ = nullptr;
};
TORCH_MODULE(VGG);

VGG vgg11(std::int64_t classes = 1000);
VGG vgg11_bn(std::int64_t classes = 1000);
VGG vgg13(std::int64_t classes = 1000);
VGG vgg13_bn(std::int64_t classes = 1000);
VGG vgg16(std::int64_t classes = 1000);
VGG vgg16_bn(std::int64_t classes = 1000);
VGG vgg19(std::int64_t classes = 1000);
VGG vgg19_bn(std::int64_t classes = 1000);

// The defaults are those of ViT-B/16.
struct VisionTransformerOptions {
  std::int64_t image_size = 224;  // height and width
  std::int64_t patch_size = 16;   // must divide image_size; else throws std::invalid_argument
  std::int64_t layers = 12;
  std::int64_t heads = 12;  // must divide width; else throws std::invalid_argument
  std::int64_t width = 768;
  std::int64_t hidden = 3072;
  double dropout = 0;
  std::int64_t classes = 1000;
};

class VisionTransformerImpl : public torch::nn::Module {
 public:
  explicit VisionTransformerImpl(const VisionTransformerOptions& options = {});
  // Maps images [batch, 3, image_size, image_size] to logits [batch, classes].
  at::Tensor forward(const at::Tensor& images);

  torch::nn::Sequential heads = nullptr;

 private:
  at::Tensor class_token_;
  torch::nn::Conv2d patches_ = nullptr;  // "conv_proj"
  torch::nn::AnyModule encoder_;
};
TORCH_MODULE(VisionTransformer);

VisionTransformer vit_b_16(std::int64_t classes = 1000);

}  // namespace muster::models
