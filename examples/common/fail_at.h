// Lets a demonstration lose a worker: the worker kills itself after the step that a flag names.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>

struct FailAt {
  int rank = 0;
  std::int64_t step = 0;
};

// Call after each step. Kills only in the launch's first attempt, so that the next attempt succeeds.
inline void fail_if_asked(const std::optional<FailAt>& fail_at, int rank, int restart_count,
                          std::int64_t step) {
  if (!fail_at || restart_count > 0) return;
  if (fail_at->rank == rank && fail_at->step == step) std::raise(SIGKILL);
}
