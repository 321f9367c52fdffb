#include <fmt/format.h>
#include <map>
#include <muster/model/init_weights.h>
#include <muster/vision/models.h>
#include <stdexcept>
#include <torch/torch.h>

namespace muster::models {
namespace {

constexpr std::int64_t kPooled = 7;  // height and width of the head's input

// Returns the number of convolutions for each of the five image sizes in the network. Each size is half of
// the previous one.
std::array<int, 5> convolutions_of(int layers) {
  static const std::map<int, std::array<int, 5>> known = {
      {11, {1, 1, 2, 2, 2}}, {13, {2, 2, 2, 2, 2}}, {16, {2, 2, 3, 3, 3}}, {19, {2, 2, 4, 4, 4}}};
  const auto found = known.find(layers);
  if (found == known.end())
    throw std::invalid_argument(fmt::format("VGG: layers is {}; it must be 11, 13, 16 or 19", layers));
  return found->second;
}

}  // namespace

VGGImpl::VGGImpl(const VGGOptions& options) {
  namespace nn = torch::nn;
  constexpr std::array<std::int64_t, 5> kChannels{64, 128, 256, 512, 512};
  const std::array<int, 5> convolutions = convolutions_of(options.layers);
  features_ = register_module("features", nn::Sequential());
  std::int64_t in = 3;
  for (std::size_t size = 0; size < kChannels.size(); ++size) {
    for (int i = 0; i < convolutions[size]; ++i) {
      const std::int64_t out = kChannels[size];
      features_->push_back(nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1)));
      if (options.batch_norm) features_->push_back(nn::BatchNorm2d(out));
      features_->push_back(nn::ReLU(nn::ReLUOptions(true)));
      in = out;
    }
    features_->push_back(nn::MaxPool2d(2));
  }
  classifier = register_module(
      "classifier",
      nn::Sequential(nn::Linear(in * kPooled * kPooled, options.hidden), nn::ReLU(nn::ReLUOptions(true)),
                     nn::Dropout(options.dropout), nn::Linear(options.hidden, options.hidden),
                     nn::ReLU(nn::ReLUOptions(true)), nn::Dropout(options.dropout),
                     nn::Linear(options.hidden, options.classes)));
  init_weights(*this, {.conv = initializers::kaiming_normal(0, initializers::Mode::kFanOut),
                       .linear = initializers::normal(0.01)});
}

at::Tensor VGGImpl::forward(const at::Tensor& images) {
  return classifier->forward(
      torch::adaptive_avg_pool2d(features_->forward(images), {kPooled, kPooled}).flatten(1));
}

VGG vgg11(std::int64_t classes) {
  return VGG(VGGOptions{.layers = 11, .classes = classes});
}
VGG vgg11_bn(std::int64_t classes) {
  return VGG(VGGOptions{.layers = 11, .batch_norm = true, .classes = classes});
}
VGG vgg13(std::int64_t classes) {
  return VGG(VGGOptions{.layers = 13, .classes = classes});
}
VGG vgg13_bn(std::int64_t classes) {
  return VGG(VGGOptions{.layers = 13, .batch_norm = true, .classes = classes});
}
VGG vgg16(std::int64_t classes) {
  return VGG(VGGOptions{.layers = 16, .classes = classes});
}
VGG vgg16_bn(std::int64_t classes) {
  return VGG(VGGOptions{.layers = 16, .batch_norm = true, .classes = classes});
}
VGG vgg19(std::int64_t classes) {
  return VGG(VGGOptions{.layers = 19, .classes = classes});
}
VGG vgg19_bn(std::int64_t classes) {
  return VGG(VGGOptions{.layers = 19, .batch_norm = true, .classes = classes});
}

}  // namespace muster::models
