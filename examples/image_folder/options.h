// The flags of train_image_folder.
//
// Plain values with their defaults; what they mean is in the text of --help.
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

// Ends the process for --help (0) and for a flag that cannot be used (one line on stderr, 2).
Options parse_options(int argc, char** argv);
