// The flags of train_transfer_learning.
//
// Plain values with their defaults; what they mean is in the text of --help.
#pragma once

#include <cstdint>
#include <string>

struct Options {
  std::string data_dir = "/usr/share/datasets/fashion-mnist";
  std::int64_t first_class = 0;
  std::string from;               // checkpoint directory of a backbone; empty: none
  std::int64_t train_images = 0;  // so many only; 0: all
  std::int64_t epochs = 3;
  std::int64_t frozen_epochs = 2;  // of a backbone that --from names
  std::int64_t max_steps = 0;      // 0: no limit
  std::int64_t batch_size = 64;
  double lr = 3e-3;
  std::int64_t width = 16;
  std::uint64_t seed = 1;
  std::int64_t checkpoint_every = 100;
};

// Ends the process for --help (0) and for a flag that cannot be used (one line on stderr, 2).
Options parse_options(int argc, char** argv);
