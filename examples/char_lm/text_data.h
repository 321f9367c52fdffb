// A text as samples for training, and the learning rate for it.
//
// Every worker writes the tokens, because it may be the only worker on its node.
#pragma once

#include <algorithm>
#include <cmath>
#include <muster/data/token_dataset.h>
#include <numbers>
#include <string>
#include <torch/torch.h>

#include "examples/char_lm/text.h"

struct TextData {
  // std::runtime_error names the file that cannot be used.
  TextData(const std::string& path, const std::string& token_dir, std::int64_t context)
      : text(path),
        tokens(text.write_tokens(token_dir), {.context = context,
                                              .stride = std::max<std::int64_t>(1, context / 4),
                                              .dtype = torch::kByte,
                                              .vocabulary_size = text.vocabulary_size()}) {}
  Text text;
  muster::TokenDataset tokens;
};

// The rate rises linearly over the first 5 % of the steps, then falls along a cosine to a tenth of `highest`.
inline void set_learning_rate(torch::optim::Optimizer& optimizer, double highest, std::int64_t step,
                              std::int64_t steps) {
  const double done = static_cast<double>(step + 1) / static_cast<double>(steps);
  const double part =
      done < 0.05 ? done / 0.05 : 0.55 + 0.45 * std::cos(std::numbers::pi * (done - 0.05) / 0.95);
  for (auto& group : optimizer.param_groups()) group.options().set_lr(highest * part);
}
