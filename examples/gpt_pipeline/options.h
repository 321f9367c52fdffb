// The flags of train_gpt_pipeline.
//
// Plain values with their defaults; the text of --help explains them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "examples/char_lm/gpt_options.h"
#include "examples/common/flags.h"

struct Options {
  PipelineFlags pipeline;
  std::string text = "/usr/share/common-licenses";
  std::string token_dir;  // empty: the folder for temporary files
  std::int64_t epochs = 4;
  std::int64_t max_steps = 0;  // 0: no limit
  std::int64_t batch_size = 16;
  GptOptions model{.layers = 4};
  double lr = 4e-3;
  double clip_grad_norm = 1;
  std::uint64_t seed = 1;
  int num_workers = 1;
  std::int64_t checkpoint_every = 100;
  std::optional<FailAt> fail_at;
};

// Exits with 0 for --help, and with 2 and one line on stderr for a bad flag.
Options parse_options(int argc, char** argv);
