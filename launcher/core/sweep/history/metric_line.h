// A line with which any program reports metrics: `MUSTER_METRIC val_loss=0.12 accuracy=0.9 step=3`.
//
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace muster::launcher::sweep {

inline constexpr std::string_view kMetricMark = "MUSTER_METRIC ";

struct MetricLine {
  std::map<std::string, double> values;
  std::optional<std::int64_t> step;  // nullopt: the line does not say
};

// nullopt: the line reports nothing. An error: it begins with the mark, but cannot be read; one clause for
// the user. Values are numbers as C++ and Python print them, nan and inf included.
std::optional<Expected<MetricLine>> read_metric_line(std::string_view line);

}  // namespace muster::launcher::sweep
