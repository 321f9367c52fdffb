// The flags of train_resnet50_pipeline.
//
// Plain values with their defaults; the text of --help explains them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "examples/common/flags.h"

struct Options {
  PipelineFlags pipeline;
  std::string data_dir;  // empty: generated images
  std::int64_t made_images = 512;
  std::int64_t image_size = 64;
  std::int64_t width = 64;
  std::int64_t epochs = 3;
  std::int64_t max_steps = 0;  // 0: no limit
  std::int64_t batch_size = 32;
  double lr = 0.02;
  std::uint64_t seed = 1;
  int num_workers = 1;
  std::int64_t checkpoint_every = 100;
  std::optional<FailAt> fail_at;
};

// Exits with 0 for --help, and with 2 and one line on stderr for a bad flag.
Options parse_options(int argc, char** argv);
