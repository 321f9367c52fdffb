// The flags of train_image_folder.
//
// Plain values with their defaults; the text of --help explains them.
#pragma once

#include <cstdint>
#include <string>

#include "examples/common/fail_at.h"

struct Options {
  std::string data_dir;
  std::int64_t image_size = 28;
  std::int64_t epochs = 3;
  std::int64_t max_steps = 0;  // 0: no limit
  std::int64_t batch_size = 64;
  double lr = 2e-3;
  std::uint64_t seed = 1;
  int num_workers = 2;
  bool skip_bad = false;
  std::int64_t checkpoint_every = 100;
  std::optional<FailAt> fail_at;
};

// Exits with 0 for --help, and with 2 and one line on stderr for a bad flag.
Options parse_options(int argc, char** argv);
