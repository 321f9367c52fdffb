#include <muster/vision/models.h>
#include <string>
#include <torch/torch.h>

namespace muster::models {
namespace {

namespace nn = torch::nn;

// Returns a convolution whose initial values are those that He and others propose for a convolution before a
// ReLU. It uses their variant "fan-out".
nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t stride = 1) {
  nn::Conv2d made(nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
  nn::init::kaiming_normal_(made->weight, 0, torch::kFanOut, torch::kReLU);
  return made;
}

struct BlockShape {
  std::int64_t in = 0;
  std::int64_t middle = 0;  // channels
  std::int64_t stride = 1;
};

constexpr std::int64_t kExpansion = 4;  // a bottleneck's output channels divided by its middle channels
std::int64_t channels_out(const ResNetOptions& of, std::int64_t middle) {
  return of.bottleneck ? middle * kExpansion : middle;
}

// A few convolutions, and a shortcut around them. A bottleneck block has three convolutions, of the sizes
// 1x1, 3x3 and 1x1. All other blocks have two, of the size 3x3.
struct ResidualBlockImpl : nn::Module {
  ResidualBlockImpl(const ResNetOptions& of, const BlockShape& shape) {
    const std::int64_t out = channels_out(of, shape.middle);
    if (of.bottleneck) {
      add(convolution(shape.in, shape.middle, 1), shape.middle);
      add(convolution(shape.middle, shape.middle, 3, shape.stride), shape.middle);
      add(convolution(shape.middle, out, 1), out);
    } else {
      add(convolution(shape.in, shape.middle, 3, shape.stride), shape.middle);
      add(convolution(shape.middle, out, 3), out);
    }
    if (shape.stride == 1 && shape.in == out) return;
    downsample = register_module(
        "downsample", nn::Sequential(convolution(shape.in, out, 1, shape.stride), nn::BatchNorm2d(out)));
  }

  // Maps [batch, in, height, width] to [batch, out, height / stride, width / stride].
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor inner = x;
    for (std::size_t i = 0; i < convolutions.size(); ++i) {
      if (i > 0) inner = torch::relu(inner);
      inner = norms[i](convolutions[i](inner));
    }
    return torch::relu(inner + (downsample.is_empty() ? x : downsample->forward(x)));
  }

  void add(nn::Conv2d convolution, std::int64_t out) {
    const std::string number = std::to_string(convolutions.size() + 1);
    convolutions.push_back(register_module("conv" + number, std::move(convolution)));
    norms.push_back(register_module("bn" + number, nn::BatchNorm2d(out)));
  }

  std::vector<nn::Conv2d> convolutions;
  std::vector<nn::BatchNorm2d> norms;
  nn::Sequential downsample = nullptr;
};
TORCH_MODULE(ResidualBlock);

// The layers before the blocks.
struct ResNetStartImpl : nn::Module {
  explicit ResNetStartImpl(const ResNetOptions& of)
      : conv1(register_module("conv1", convolution(3, of.width, 7, 2))),
        bn1(register_module("bn1", nn::BatchNorm2d(of.width))) {}

  // Maps images [batch, 3, height, width] to [batch, width, height / 4, width / 4].
  at::Tensor forward(const at::Tensor& images) {
    return torch::max_pool2d(torch::relu(bn1(conv1(images))), 3, 2, 1);
  }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
};
TORCH_MODULE(ResNetStart);

nn::Linear head_of(const ResNetOptions& of) {
  return nn::Linear(channels_out(of, of.width * 8), of.classes);
}

// Returns the mean of each channel.
at::Tensor pooled(const at::Tensor& x) {
  return torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
}

// The layers after the blocks.
struct ResNetEndImpl : nn::Module {
  explicit ResNetEndImpl(const ResNetOptions& of) : fc(register_module("fc", head_of(of))) {}
  at::Tensor forward(const at::Tensor& x) { return fc(pooled(x)); }
  nn::Linear fc;
};
TORCH_MODULE(ResNetEnd);

// Calls `add` once for each block. The arguments are the name of the layer that the block is in, such as
// "layer1", the number of the block in this layer, and the shape of the block.
template <class Add>
void for_each_block(const ResNetOptions& of, Add add) {
  std::int64_t in = of.width;
  std::int64_t middle = of.width;
  for (std::size_t layer = 0; layer < of.blocks.size(); ++layer, middle *= 2) {
    for (std::int64_t block = 0; block < of.blocks.at(layer); ++block) {
      add("layer" + std::to_string(layer + 1), std::to_string(block),
          BlockShape{.in = in, .middle = middle, .stride = layer > 0 && block == 0 ? 2 : 1});
      in = channels_out(of, middle);
    }
  }
}

}  // namespace

ResNetImpl::ResNetImpl(const ResNetOptions& options) {
  ResNetStart start(options);
  register_module("conv1", start->conv1);
  register_module("bn1", start->bn1);
  start_ = nn::Sequential(std::move(start));
  for_each_block(options,
                 [&](const std::string& layer, const std::string& /*place*/, const BlockShape& shape) {
                   if (!named_children().contains(layer))
                     layers_.push_back(register_module(layer, nn::Sequential()));
                   layers_.back()->push_back(ResidualBlock(options, shape));
                 });
  fc = register_module("fc", head_of(options));
}

at::Tensor ResNetImpl::forward(const at::Tensor& images) {
  at::Tensor x = start_->forward(images);
  for (auto& layer : layers_) x = layer->forward(x);
  return fc(pooled(x));
}

ResNet resnet18(std::int64_t classes) {
  return ResNet(ResNetOptions{.blocks = {2, 2, 2, 2}, .bottleneck = false, .classes = classes});
}
ResNet resnet34(std::int64_t classes) {
  return ResNet(ResNetOptions{.bottleneck = false, .classes = classes});
}
ResNet resnet50(std::int64_t classes) {
  return ResNet(ResNetOptions{.classes = classes});
}

std::vector<NamedLayer> resnet_layers(const ResNetOptions& options) {
  std::vector<NamedLayer> layers;
  layers.push_back({"", [options] { return nn::AnyModule(ResNetStart(options)); }});
  for_each_block(options, [&](const std::string& layer, const std::string& place, const BlockShape& shape) {
    layers.push_back({layer + "." + place, [=] { return nn::AnyModule(ResidualBlock(options, shape)); }});
  });
  layers.push_back({"", [options] { return nn::AnyModule(ResNetEnd(options)); }});
  return layers;
}

}  // namespace muster::models
