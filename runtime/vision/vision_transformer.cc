#include <cmath>
#include <fmt/format.h>
#include <muster/model/init_weights.h>
#include <muster/model/linear.h>
#include <muster/vision/models.h>
#include <stdexcept>
#include <string>
#include <torch/torch.h>

namespace muster::models {
namespace {

namespace nn = torch::nn;

nn::LayerNorm transformer_norm(std::int64_t width) {
  return nn::LayerNorm(nn::LayerNormOptions({width}).eps(1e-6));
}

// The parameters have the names and initial values of torch.nn.MultiheadAttention.
struct SelfAttentionImpl : nn::Module {
  explicit SelfAttentionImpl(const VisionTransformerOptions& of)
      : heads(of.heads),
        in_proj_weight(register_parameter("in_proj_weight", torch::empty({3 * of.width, of.width}))),
        in_proj_bias(register_parameter("in_proj_bias", torch::zeros({3 * of.width}))),
        out_proj(register_module("out_proj", Linear(of.width, of.width))) {
    nn::init::xavier_uniform_(in_proj_weight);
    nn::init::zeros_(out_proj->bias);
  }

  // Maps [batch, places, width] to the same shape.
  at::Tensor forward(const at::Tensor& x) {
    const auto parts = torch::linear(x, in_proj_weight, in_proj_bias).chunk(3, -1);
    const auto per_head = [this](const at::Tensor& each) {
      return each.unflatten(-1, {heads, -1}).transpose(1, 2);
    };
    return out_proj(
        at::scaled_dot_product_attention(per_head(parts[0]), per_head(parts[1]), per_head(parts[2]))
            .transpose(1, 2)
            .flatten(2));
  }

  std::int64_t heads;
  at::Tensor in_proj_weight, in_proj_bias;
  Linear out_proj;
};
TORCH_MODULE(SelfAttention);

struct EncoderLayerImpl : nn::Module {
  explicit EncoderLayerImpl(const VisionTransformerOptions& of)
      : ln_1(register_module("ln_1", transformer_norm(of.width))),
        self_attention(register_module("self_attention", SelfAttention(of))),
        dropout(of.dropout),
        ln_2(register_module("ln_2", transformer_norm(of.width))),
        mlp(register_module("mlp",
                            nn::Sequential(Linear(of.width, of.hidden), nn::GELU(), nn::Dropout(of.dropout),
                                           Linear(of.hidden, of.width), nn::Dropout(of.dropout)))) {
    init_weights(mlp, {.linear = initializers::xavier_uniform(), .bias = initializers::normal(1e-6)});
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor seen = x + torch::dropout(self_attention(ln_1(x)), dropout, is_training());
    return seen + mlp->forward(ln_2(seen));
  }

  nn::LayerNorm ln_1;
  SelfAttention self_attention;
  double dropout;
  nn::LayerNorm ln_2;
  nn::Sequential mlp;
};
TORCH_MODULE(EncoderLayer);

struct EncoderImpl : nn::Module {
  EncoderImpl(const VisionTransformerOptions& of, std::int64_t places)
      : dropout(of.dropout),
        pos_embedding(
            register_parameter("pos_embedding", torch::empty({1, places, of.width}).normal_(0, 0.02))),
        layers(register_module("layers", nn::Sequential())),
        ln(register_module("ln", transformer_norm(of.width))) {
    for (std::int64_t i = 0; i < of.layers; ++i)
      layers->push_back("encoder_layer_" + std::to_string(i), EncoderLayer(of));
  }

  // Maps [batch, places, width] to the same shape.
  at::Tensor forward(const at::Tensor& x) {
    return ln(layers->forward(torch::dropout(x + pos_embedding, dropout, is_training())));
  }

  double dropout;
  at::Tensor pos_embedding;
  nn::Sequential layers;
  nn::LayerNorm ln;
};
TORCH_MODULE(Encoder);

std::int64_t patches_of(const VisionTransformerOptions& of) {
  if (of.patch_size < 1 || of.image_size % of.patch_size != 0)
    throw std::invalid_argument(fmt::format("VisionTransformer: patches of {} do not divide images of {}",
                                            of.patch_size, of.image_size));
  if (of.heads < 1 || of.width % of.heads != 0)
    throw std::invalid_argument(
        fmt::format("VisionTransformer: {} heads do not divide a width of {}", of.heads, of.width));
  return (of.image_size / of.patch_size) * (of.image_size / of.patch_size);
}

}  // namespace

VisionTransformerImpl::VisionTransformerImpl(const VisionTransformerOptions& options) {
  const std::int64_t patches = patches_of(options);
  class_token_ = register_parameter("class_token", torch::zeros({1, 1, options.width}));
  patches_ = register_module(
      "conv_proj",
      nn::Conv2d(nn::Conv2dOptions(3, options.width, options.patch_size).stride(options.patch_size)));
  const double fan_in = static_cast<double>(3 * options.patch_size * options.patch_size);
  init_weights(*patches_, {.conv = initializers::trunc_normal(std::sqrt(1 / fan_in))});
  Encoder encoder(options, patches + 1);
  register_module("encoder", encoder);
  encoder_ = nn::AnyModule(std::move(encoder));
  heads = register_module("heads", nn::Sequential());
  heads->push_back("head", nn::Linear(options.width, options.classes));
  init_weights(heads, {.linear = initializers::constant(0)});
}

at::Tensor VisionTransformerImpl::forward(const at::Tensor& images) {
  const at::Tensor patches = patches_(images).flatten(2).transpose(1, 2);
  const at::Tensor tokens = torch::cat({class_token_.expand({images.size(0), -1, -1}), patches}, 1);
  return heads->forward(encoder_.forward(tokens).select(1, 0));
}

VisionTransformer vit_b_16(std::int64_t classes) {
  return VisionTransformer(VisionTransformerOptions{.classes = classes});
}

}  // namespace muster::models
