// The report about an ended job: report.json for programs, and a summary of at most ten lines for people.
// report.json also has the full text for `launch report`.
//
// Pure: it only makes text from values.
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
  // The same moment on two clocks. With it, other moments of the first clock can be converted to the second.
  TimePoint now{};
  double now_unix = 0;
  // The flag --log-dir that `launch report` and other commands need to find the job. It is empty if they do
  // not need it.
  std::string log_directory_flag{};
  // Including the names of added nodes.
  NodeNames names{};
  bool has_output = true;  // a worker has printed something
};

// docs/reference/formats.md describes the fields.
std::string report_as_json(const Outcome& outcome);
// Returns at most ten lines, which end with a newline. A success takes one line, or two if ranks reported the
// times of their steps.
std::string summary(const Outcome& outcome);

}  // namespace muster::launcher
