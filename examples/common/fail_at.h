// How a demonstration loses a worker: it kills itself, after a step that a flag names.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>

struct FailAt {
  int rank = 0;
  std::int64_t step = 0;
};

// After each step; only in the launch's first attempt, so that the next one gets through.
inline void fail_if_asked(const std::optional<FailAt>& fail_at, int rank, int restart_count,
                          std::int64_t step) {
  if (!fail_at || restart_count > 0) return;
  if (fail_at->rank == rank && fail_at->step == step) std::raise(SIGKILL);
}
