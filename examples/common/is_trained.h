// What a training says that has nothing left to do.
#pragma once

#include <cstdint>
#include <cstdio>

// Says so on one rank, where a training that goes on at step `resumed` is at its end already.
inline bool is_trained(bool shown, std::int64_t resumed, std::int64_t total_steps) {
  if (resumed < total_steps) return false;
  if (shown)
    std::printf("nothing is left to train: all %ld steps are done\n", static_cast<long>(total_steps));
  return true;
}
