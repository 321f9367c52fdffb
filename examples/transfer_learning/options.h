// The flags of train_transfer_learning.
//
// Plain values with their defaults; the text of --help explains them.
#pragma once

#include <cstdint>
#include <string>

struct Options {
  std::string data_dir = "/usr/share/datasets/fashion-mnist";
  std::int64_t first_class = 0;
  std::string from;               // checkpoint directory of a backbone; empty: none
  std::int64_t train_images = 0;  // 0: all
  std::int64_t epochs = 3;
  std::int64_t frozen_epochs = 2;  // if --from names a backbone
  std::int64_t max_steps = 0;      // 0: no limit
  std::int64_t batch_size = 64;
  double lr = 3e-3;
  std::int64_t width = 16;
  std::uint64_t seed = 1;
  std::int64_t checkpoint_every = 100;
};

// Exits with 0 for --help, and with 2 and one line on stderr for a bad flag.
Options parse_options(int argc, char** argv);
