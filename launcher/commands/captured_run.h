// Runs a short program and keeps what it prints.
//
// Blocking, with a limit after which the program is killed. Not for workers: nothing of it is watched.
#pragma once

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"

namespace muster::launcher {

struct CapturedRun {
  int exit_code = 0;  // 128 + signal if it was killed
  std::string out;    // of stdout and stderr, at most 1 MiB
};
// `program` is a path, or looked up in PATH; `environment` holds NAME=value.
Expected<CapturedRun> run_captured(const std::vector<std::string>& program,
                                   const std::vector<std::string>& environment, Duration limit);

}  // namespace muster::launcher
