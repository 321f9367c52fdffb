// Runs a short program and captures its output.
//
// Blocking; kills the program at a time limit. Not for workers: nothing watches the program.
#pragma once

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"

namespace muster::launcher {

struct CapturedRun {
  int exit_code = 0;  // 128 + signal if it was killed
  std::string out;    // stdout and stderr together, at most 1 MiB
};
// `program`: its first word is a path, or a name in PATH. `environment`: NAME=value entries.
Expected<CapturedRun> run_captured(const std::vector<std::string>& program,
                                   const std::vector<std::string>& environment, Duration limit);

}  // namespace muster::launcher
