// The flags of train_fashion_mnist.
//
// Plain values with their defaults; the text of --help explains them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "examples/common/fail_at.h"

struct Options {
  std::int64_t epochs = 3;
  std::int64_t max_steps = 0;  // 0: no limit
  std::int64_t batch_size = 64;
  double lr = 2e-3;
  double clip_grad_norm = 0;  // 0: not clipped
  std::uint64_t seed = 1;
  bool deterministic = false;
  int num_workers = 1;
  std::int64_t checkpoint_every = 100;
  std::int64_t memory_every = 0;
  std::string data_dir = "/usr/share/datasets/fashion-mnist";
  std::optional<FailAt> fail_at;
};

// Exits with 0 for --help, and with 2 and one line on stderr for a bad flag.
Options parse_options(int argc, char** argv);
