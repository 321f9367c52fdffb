// Writes the trials of a sweep as text for people, and as JSON. This is for `launch sweep status` and `launch
// sweep show`.
//
// Numbers in tables have 6 digits; JSON and the parameters of a single trial have all digits. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/core/sweep/history/history.h"
#include "launcher/core/sweep/search/search.h"

namespace muster::launcher::sweep {

struct TableOptions {
  double now = 0;         // s since the sweep's begin, for running trials
  std::size_t width = 0;  // of the terminal, in characters; 0: nothing is cut
};
// Returns how many trials are in each state, such as ", 2 running, 14 finished".
std::string counts_of_states(const std::vector<Trial>& trials);
// Returns a table with a row for each of these trials, in this order. The column of a metric has the metric's
// name.
std::string trials_as_table(const std::vector<Trial>& trials, const std::vector<Objective>& objectives,
                            const TableOptions& options);
// Returns an array with an object for each trial. The objects do not have the earlier values of the metrics.
// A value that is not finite is null.
nlohmann::ordered_json trials_as_json(const std::vector<Trial>& trials);

// A line for each value: "  lr = 0.1".
std::string values_as_text(const Trial& trial);
// Returns lines with the trial's state, its parameters, and its metrics with their best values. A table of
// all values follows.
std::string trial_as_text(const Trial& trial, const std::vector<Objective>& objectives,
                          const TableOptions& options);
// Returns the JSON object that the trial has in trials_as_json(), with all its values and exploits.
nlohmann::ordered_json trial_as_json(const Trial& trial);

}  // namespace muster::launcher::sweep
