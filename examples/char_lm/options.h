// The flags of train_char_lm.
//
// Plain values with their defaults; the text of --help explains them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "examples/char_lm/gpt_options.h"
#include "examples/common/fail_at.h"

struct Options {
  std::string text = "/usr/share/common-licenses";
  std::string token_dir;  // empty: the folder for temporary files
  std::int64_t epochs = 4;
  std::int64_t max_steps = 0;  // 0: no limit
  std::int64_t batch_size = 8;
  std::int64_t accumulate = 2;
  GptOptions model;
  double lr = 4e-3;
  double clip_grad_norm = 1;
  std::string comm_hook = "none";
  std::uint64_t seed = 1;
  int num_workers = 1;
  std::int64_t checkpoint_every = 100;
  std::int64_t generate = 300;
  std::optional<FailAt> fail_at;
};

// Exits with 0 for --help, and with 2 and one line on stderr for a bad flag.
Options parse_options(int argc, char** argv);
