// A small decoder-only transformer: GPT-2's architecture over characters, for one context of text.
//
// The table of characters is used twice, for what comes in and for what goes out.
#pragma once

#include <cmath>
#include <torch/torch.h>

struct GptOptions {
  std::int64_t vocabulary = 0;
  std::int64_t context = 128;
  std::int64_t width = 64;
  std::int64_t heads = 4;  // of `width` / `heads` each
  std::int64_t layers = 2;
  double dropout = 0.1;
};

inline torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const GptOptions& of)
      : options(of),
        norm1(register_module("norm1", layer_norm(of.width))),
        attention_in(register_module("attention_in", torch::nn::Linear(of.width, 3 * of.width))),
        attention_out(register_module("attention_out", torch::nn::Linear(of.width, of.width))),
        norm2(register_module("norm2", layer_norm(of.width))),
        hidden(register_module("hidden", torch::nn::Linear(of.width, 4 * of.width))),
        output(register_module("output", torch::nn::Linear(4 * of.width, of.width))),
        dropout(register_module("dropout", torch::nn::Dropout(of.dropout))) {}

  // [batch, time, width] to the same
  torch::Tensor forward(const torch::Tensor& x) {
    const auto seen = x + dropout(attention_out(attend(attention_in(norm1(x)))));
    return seen + dropout(output(torch::gelu(hidden(norm2(seen)), "tanh")));
  }

  torch::Tensor attend(const torch::Tensor& all) const {
    const auto per_head = [&](const torch::Tensor& each) {
      return each.unflatten(-1, {options.heads, -1}).transpose(1, 2);
    };
    const auto parts = all.chunk(3, -1);
    const double drop = is_training() ? options.dropout : 0;
    return at::scaled_dot_product_attention(per_head(parts[0]), per_head(parts[1]), per_head(parts[2]), {},
                                            drop,
                                            /*is_causal=*/true)
        .transpose(1, 2)
        .flatten(2);
  }

  GptOptions options;
  torch::nn::LayerNorm norm1;
  torch::nn::Linear attention_in, attention_out;
  torch::nn::LayerNorm norm2;
  torch::nn::Linear hidden, output;
  torch::nn::Dropout dropout;
};
TORCH_MODULE(Block);

struct GptImpl : torch::nn::Module {
  explicit GptImpl(const GptOptions& of)
      : options(of),
        characters(register_module("characters", torch::nn::Embedding(of.vocabulary, of.width))),
        positions(register_module("positions", torch::nn::Embedding(of.context, of.width))),
        dropout(register_module("dropout", torch::nn::Dropout(of.dropout))),
        blocks(register_module("blocks", torch::nn::Sequential())),
        norm(register_module("norm", layer_norm(of.width))) {
    for (std::int64_t layer = 0; layer < of.layers; ++layer) blocks->push_back(Block(of));
    const torch::NoGradGuard no_grad;
    for (auto& parameter : named_parameters()) {
      // GPT-2's: what adds to the sum of all blocks begins smaller, the more of them there are.
      const bool adds =
          parameter.key().ends_with("output.weight") || parameter.key().ends_with("_out.weight");
      if (parameter.value().dim() == 2)
        parameter.value().normal_(0, adds ? 0.02 / std::sqrt(2.0 * static_cast<double>(of.layers)) : 0.02);
      else if (parameter.key().ends_with("bias"))
        parameter.value().zero_();
    }
  }

  // Characters [batch, time], time at most `context`, to logits of the next ones [batch, time, vocabulary].
  torch::Tensor forward(const torch::Tensor& text) {
    const auto places = torch::arange(text.size(1), text.options());
    const auto x = blocks->forward(dropout(characters(text) + positions(places)));
    return torch::matmul(norm(x), characters->weight.t());
  }

  GptOptions options;
  torch::nn::Embedding characters, positions;
  torch::nn::Dropout dropout;
  torch::nn::Sequential blocks;
  torch::nn::LayerNorm norm;
};
TORCH_MODULE(Gpt);
