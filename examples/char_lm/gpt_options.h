// The size of a GPT.
//
// Plain values with their defaults, without torch; gpt_flags.h fills them from the command line.
#pragma once

#include <cstdint>

struct GptOptions {
  std::int64_t vocabulary = 0;
  std::int64_t context = 128;
  std::int64_t width = 64;
  std::int64_t heads = 4;  // each has `width` / `heads` features
  std::int64_t layers = 2;
  double dropout = 0.1;
};
