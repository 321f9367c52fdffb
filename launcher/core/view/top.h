// `launch top`: a table of the ranks of a running job, with their progress and resources.
//
// CPU percentages cover the time between two answers of the launcher; in the first answer, the time since the
// start of the process. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "launcher/core/view/status.h"

namespace muster::launcher {

struct Screen {
  std::size_t columns = 0;  // 0: unlimited; otherwise lines are cut
  std::size_t rows = 0;     // 0: unlimited; otherwise the last row counts the ranks that do not fit
  bool bold = false;        // for the table's heading
};
// Returns the table. Each line ends with a newline. `before` is an earlier answer about the same job.
std::string top_as_text(const JobStatus& status, const std::optional<JobStatus>& before,
                        const Screen& screen);
// The JSON of `launch status --json`, with "cpu_percent".
std::string top_as_json(const JobStatus& status, const std::optional<JobStatus>& before);

// Whether every running rank has reported its resources.
bool knows_usage(const JobStatus& status);

}  // namespace muster::launcher
