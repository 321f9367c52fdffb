// What is said about a job when it is over: report.json for programs, a summary of ten lines at most for
// people, and all of that in report.json for those who ask (`launch report`).
//
// Pure: values in, text out.
#pragma once

#include <string>
#include <vector>

#include "launcher/core/job/job.h"

namespace muster::launcher {

struct Outcome {
  const Plan& plan;
  const Verdict& verdict;
  const std::vector<AttemptHistory>& attempts;
  std::int32_t restart_count = 0;
  Duration duration{};
  // One moment by two clocks, by which other moments of the first are told by the second.
  TimePoint now{};
  double now_unix = 0;
  // The flag with which `launch report` and others find the job; empty where they look without it.
  std::string log_directory_flag{};
  // Those of nodes that were added as well.
  NodeNames names{};
  bool has_output = true;  // some worker has printed something
};

// docs/reference/formats.md describes the fields.
std::string report_as_json(const Outcome& outcome);
// One line on success, and one more where ranks told how their steps went. Ends with a newline.
std::string summary(const Outcome& outcome);

}  // namespace muster::launcher
