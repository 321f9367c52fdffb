// The rule for the names of metrics that workers report, and the name of the file for the reports of a
// sweep's trial.
//
// For the runtime, the agent and the launcher.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace muster::wire {

constexpr std::size_t kMostMetricNameBytes = 128;

// The environment variable that is set for the workers of a sweep's trial, and for no others.
inline constexpr const char* kTrialVariable = "MUSTER_TRIAL";
// A file in the log directory of each rank of a trial. It has one line of JSON for each report, and one for
// the end of the rank. A sweep that is killed may not have received the last reports of its trials. So `sweep
// resume` reads them from this file.
inline constexpr const char* kMetricsFile = "metrics.jsonl";

// Returns whether `name` is valid. It must begin with a letter or '_'. The other characters can be letters,
// digits, '_', '/', '.' or '-'. It has at most kMostMetricNameBytes bytes.
constexpr bool is_metric_name(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto may_follow = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '/' || c == '.' || c == '-';
  };
  return !name.empty() && name.size() <= kMostMetricNameBytes && is_letter(name.front()) &&
         std::ranges::all_of(name, may_follow);
}

}  // namespace muster::wire
