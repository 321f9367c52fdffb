// A small decoder-only transformer: GPT-2's architecture over characters, for one context of text.
//
// The embedding of characters serves the input and the output layer (tied weights). gpt_layers() makes the
// same model as a list of layers, with the same parameter names, for a pipeline.
#pragma once

#include <cmath>
#include <muster/model/linear.h>
#include <muster/pipeline/pipeline_layers.h>
#include <string>
#include <torch/torch.h>

#include "examples/char_lm/gpt_options.h"

inline torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const GptOptions& of)
      : options(of),
        norm1(register_module("norm1", layer_norm(of.width))),
        attention_in(register_module("attention_in", muster::Linear(of.width, 3 * of.width))),
        attention_out(register_module("attention_out", muster::Linear(of.width, of.width))),
        norm2(register_module("norm2", layer_norm(of.width))),
        hidden(register_module("hidden", muster::Linear(of.width, 4 * of.width))),
        output(register_module("output", muster::Linear(4 * of.width, of.width))),
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
  muster::Linear attention_in, attention_out;
  torch::nn::LayerNorm norm2;
  muster::Linear hidden, output;
  torch::nn::Dropout dropout;
};
TORCH_MODULE(Block);

// The layers before the blocks: embeddings of each character and of its position.
struct GptStartImpl : torch::nn::Module {
  GptStartImpl(const GptOptions& of, torch::nn::Embedding table)
      : characters(register_module("characters", std::move(table))),
        positions(register_module("positions", torch::nn::Embedding(of.context, of.width))),
        dropout(register_module("dropout", torch::nn::Dropout(of.dropout))) {}

  // [batch, time] to [batch, time, width]
  torch::Tensor forward(const torch::Tensor& text) {
    const auto places = torch::arange(text.size(1), text.options());
    return dropout(characters(text) + positions(places));
  }

  torch::nn::Embedding characters, positions;
  torch::nn::Dropout dropout;
};
TORCH_MODULE(GptStart);

// The layers after the blocks: the last norm and the output projection.
struct GptEndImpl : torch::nn::Module {
  GptEndImpl(const GptOptions& of, torch::nn::Embedding table)
      : norm(register_module("norm", layer_norm(of.width))),
        characters(register_module("characters", std::move(table))) {}

  // [batch, time, width] to [batch, time, vocabulary]
  torch::Tensor forward(const torch::Tensor& x) { return torch::matmul(norm(x), characters->weight.t()); }

  torch::nn::LayerNorm norm;
  torch::nn::Embedding characters;
};
TORCH_MODULE(GptEnd);

// GPT-2's initial values: the more blocks there are, the smaller the weights of their output projections.
inline void set_initial_values(torch::nn::Module& module, const GptOptions& of) {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : module.named_parameters()) {
    const bool adds = parameter.key().ends_with("output.weight") || parameter.key().ends_with("_out.weight");
    if (parameter.value().dim() == 2)
      parameter.value().normal_(0, adds ? 0.02 / std::sqrt(2.0 * static_cast<double>(of.layers)) : 0.02);
    else if (parameter.key().ends_with("bias"))
      parameter.value().zero_();
  }
}

struct GptImpl : torch::nn::Module {
  explicit GptImpl(const GptOptions& of)
      : start(of, torch::nn::Embedding(of.vocabulary, of.width)), end(of, start->characters) {
    for (const auto& child : start->named_children()) register_module(child.key(), child.value());
    register_module("blocks", blocks);
    for (std::int64_t layer = 0; layer < of.layers; ++layer) blocks->push_back(Block(of));
    register_module("norm", end->norm);
    set_initial_values(*this, of);
  }

  // Characters [batch, time], time at most `context`, to logits of the next ones [batch, time, vocabulary].
  torch::Tensor forward(const torch::Tensor& text) { return end(blocks->forward(start(text))); }

  GptStart start;
  torch::nn::Sequential blocks;
  GptEnd end;
};
TORCH_MODULE(Gpt);

// The same model as a list: the embeddings, each block, and the output layer.
inline muster::PipelineLayers gpt_layers(const GptOptions& of, std::uint64_t seed) {
  const auto table = [of](muster::SharedModules& shared) {
    return shared.get<torch::nn::Embedding>("characters", [&of] {
      torch::nn::Embedding made(of.vocabulary, of.width);
      set_initial_values(*made, of);
      return made;
    });
  };
  muster::PipelineLayers layers(seed);
  layers.add("", [of, table](muster::SharedModules& shared) {
    GptStart start(of, table(shared));
    set_initial_values(*start->positions, of);
    return start;
  });
  for (std::int64_t layer = 0; layer < of.layers; ++layer)
    layers.add("blocks." + std::to_string(layer), [of] {
      Block block(of);
      set_initial_values(*block, of);
      return block;
    });
  layers.add("", [of, table](muster::SharedModules& shared) { return GptEnd(of, table(shared)); });
  return layers;
}
