// Tells whether a resumed training has any step left.
#pragma once

#include <cstdint>
#include <cstdio>

// Returns true, and prints a line if `shown`, when a training resumed at step `resumed` has no step left.
inline bool is_trained(bool shown, std::int64_t resumed, std::int64_t total_steps) {
  if (resumed < total_steps) return false;
  if (shown)
    std::printf("nothing is left to train: all %ld steps are done\n", static_cast<long>(total_steps));
  return true;
}
