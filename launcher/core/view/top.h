// `launch top`: what the ranks of a running job do and use, as a table.
//
// Processor time is the share between two answers of the launcher, or, of a first one, since the start of the
// process. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "launcher/core/view/status.h"

namespace muster::launcher {

struct Screen {
  std::size_t columns = 0;  // 0: any number; else lines are cut
  std::size_t rows = 0;     // likewise: what does not fit is counted
  bool bold = false;        // the head of the table
};
// Lines with a newline each. `before`: an earlier answer about the same job.
std::string top_as_text(const JobStatus& status, const std::optional<JobStatus>& before,
                        const Screen& screen);
// "cpu_percent" and what `launch status --json` has.
std::string top_as_json(const JobStatus& status, const std::optional<JobStatus>& before);

// Whether the launcher has heard of every rank that runs what it uses.
bool knows_usage(const JobStatus& status);

}  // namespace muster::launcher
