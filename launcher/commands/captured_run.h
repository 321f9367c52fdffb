// Runs a short program and captures its output.
//
// Blocking. If the program runs longer than a time limit, it is killed. This is not for workers, because
// nothing watches the program.
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
// Runs a program. The first word of `program` is a path, or a name that is looked up in PATH. `environment`
// has entries of the form NAME=value.
Expected<CapturedRun> run_captured(const std::vector<std::string>& program,
                                   const std::vector<std::string>& environment, Duration limit);

}  // namespace muster::launcher
