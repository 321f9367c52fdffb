#include <cmath>
#include <fmt/format.h>
#include <muster/model/init_weights.h>
#include <stdexcept>
#include <torch/torch.h>

namespace muster {
namespace {

namespace nn = torch::nn;

nn::init::FanModeType fan_mode(initializers::Mode mode) {
  if (mode == initializers::Mode::kFanIn) return torch::kFanIn;
  return torch::kFanOut;
}

template <class... Kinds>
bool is_any(nn::Module& module) {
  return ((module.as<Kinds>() != nullptr) || ...);
}

struct LayerKind {
  const char* name;
  const Initializer LayerInitializers::* initializer;
  bool (*is)(nn::Module&);
};
const LayerKind kKinds[] = {
    {"convolution", &LayerInitializers::conv,
     is_any<nn::Conv1dImpl, nn::Conv2dImpl, nn::Conv3dImpl, nn::ConvTranspose1dImpl, nn::ConvTranspose2dImpl,
            nn::ConvTranspose3dImpl>},
    {"linear layer", &LayerInitializers::linear, is_any<nn::LinearImpl, nn::BilinearImpl>},
    {"recurrent layer", &LayerInitializers::recurrent,
     is_any<nn::RNNImpl, nn::LSTMImpl, nn::GRUImpl, nn::RNNCellImpl, nn::LSTMCellImpl, nn::GRUCellImpl>},
    {"embedding", &LayerInitializers::embedding, is_any<nn::EmbeddingImpl, nn::EmbeddingBagImpl>},
};

double erf_of(double x) {
  return (1 + std::erf(x / std::sqrt(2.0))) / 2;
}

void clear_padding(nn::Module& layer) {
  if (auto* const embedding = layer.as<nn::EmbeddingImpl>();
      embedding != nullptr && embedding->options.padding_idx())
    embedding->weight[*embedding->options.padding_idx()].fill_(0);
}

}  // namespace

Initializer initializers::kaiming_normal(double a, Mode mode) {
  return [=](at::Tensor& tensor) { nn::init::kaiming_normal_(tensor, a, fan_mode(mode), torch::kLeakyReLU); };
}
Initializer initializers::kaiming_uniform(double a, Mode mode) {
  return
      [=](at::Tensor& tensor) { nn::init::kaiming_uniform_(tensor, a, fan_mode(mode), torch::kLeakyReLU); };
}
Initializer initializers::xavier_normal(double gain) {
  return [=](at::Tensor& tensor) { nn::init::xavier_normal_(tensor, gain); };
}
Initializer initializers::xavier_uniform(double gain) {
  return [=](at::Tensor& tensor) { nn::init::xavier_uniform_(tensor, gain); };
}
Initializer initializers::orthogonal(double gain) {
  return [=](at::Tensor& tensor) {
    if (tensor.dim() < 2)
      throw std::invalid_argument(
          fmt::format("orthogonal: the tensor has {} dimensions; it must have at least 2", tensor.dim()));
    if (tensor.numel() == 0) return;
    const torch::NoGradGuard no_grad;
    const std::int64_t rows = tensor.size(0), columns = tensor.numel() / rows;
    const bool is_double = tensor.scalar_type() == at::kDouble;
    const at::Tensor drawn =
        at::empty({rows, columns}, tensor.options().dtype(is_double ? at::kDouble : at::kFloat)).normal_();
    const auto [q, r] = at::linalg_qr(rows < columns ? drawn.t() : drawn);
    const at::Tensor uniform = q * r.diagonal().sign();  // drawn evenly from all orthogonal matrices
    tensor.copy_((rows < columns ? uniform.t() : uniform).reshape(tensor.sizes())).mul_(gain);
  };
}
Initializer initializers::normal(double std, double mean) {
  return [=](at::Tensor& tensor) { tensor.normal_(mean, std); };
}
Initializer initializers::trunc_normal(double std, double mean, double a, double b) {
  return [=](at::Tensor& tensor) {
    tensor.uniform_(2 * erf_of((a - mean) / std) - 1, 2 * erf_of((b - mean) / std) - 1);
    tensor.erfinv_().mul_(std * std::sqrt(2.0)).add_(mean).clamp_(a, b);
  };
}
Initializer initializers::uniform(double a, double b) {
  return [=](at::Tensor& tensor) { tensor.uniform_(a, b); };
}
Initializer initializers::constant(double value) {
  return [=](at::Tensor& tensor) { tensor.fill_(value); };
}

int detail::init_weights(nn::Module& module, const LayerInitializers& initializers) {
  const torch::NoGradGuard no_grad;
  int filled = 0;
  for (const LayerKind& kind : kKinds) {
    const Initializer& weights = initializers.*kind.initializer;
    if (!weights) continue;
    bool has_one = false;
    const auto init_layer = [&](nn::Module& layer) {
      if (!kind.is(layer)) return;
      has_one = true;
      for (auto& each : layer.named_parameters(/*recurse=*/false)) {
        // The biases of an LSTM or a GRU are called bias_ih_l0 and the like.
        const bool is_bias = each.key().starts_with("bias");
        const Initializer& initializer = is_bias ? initializers.bias : weights;
        if (!initializer) continue;
        initializer(each.value());
        ++filled;
      }
      clear_padding(layer);
    };
    module.apply(init_layer);
    if (!has_one) throw std::invalid_argument(fmt::format("init_weights: the model has no {}", kind.name));
  }
  return filled;
}

}  // namespace muster
