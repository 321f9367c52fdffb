// How large a GPT is.
//
// Plain values with their defaults, without torch: the flags of programs are read into them (gpt_flags.h).
#pragma once

#include <cstdint>

struct GptOptions {
  std::int64_t vocabulary = 0;
  std::int64_t context = 128;
  std::int64_t width = 64;
  std::int64_t heads = 4;  // of `width` / `heads` each
  std::int64_t layers = 2;
  double dropout = 0.1;
};
