// Any program can report metrics by printing a line such as `MUSTER_METRIC val_loss=0.12 accuracy=0.9
// step=3`.
//
// Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/base/ids.h"

namespace muster::launcher::sweep {

inline constexpr std::string_view kMetricMark = "MUSTER_METRIC ";

struct MetricLine {
  std::map<std::string, double> values;
  std::optional<std::int64_t> step;  // nullopt: the line does not say
};

// Reads a line of metrics. Returns nullopt if the line does not begin with kMetricMark. If the rest of the
// line cannot be read, returns an error with one clause for the user. Values are numbers in the form in which
// C++ and Python print them, including nan and inf.
std::optional<Expected<MetricLine>> read_metric_line(std::string_view line);

// Gives numbers to the steps of lines that do not name a step. Each rank counts for itself. So the lines of
// all ranks for one step get the same number. In a new attempt, all ranks begin after the same step.
class LineSteps {
 public:
  // The first attempt of the run counts its steps from `newest_step` + 1. If `newest_step` is -1, it counts
  // from 1.
  explicit LineSteps(std::int64_t newest_step) : newest_(std::max<std::int64_t>(newest_step, 0)) {}
  // Returns the step of this rank's next line. In a new attempt, all ranks continue after the newest step
  // that any rank has reached.
  std::int64_t step_of(Attempt attempt, Rank rank, const MetricLine& line);

 private:
  std::int64_t newest_;     // of all lines
  std::int64_t begin_ = 0;  // newest_ at the attempt's begin
  Attempt attempt_;
  std::map<Rank, std::int64_t> ranks_;  // newest steps of the attempt
};

}  // namespace muster::launcher::sweep
