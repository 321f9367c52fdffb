// Facts about a run of `launch` beyond its output: the times of events, a training's result, and its
// recovery.
#pragma once

#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <sstream>
#include <string>

#include "common/base/file.h"
#include "tests/process/launch_run.h"

namespace muster {

// Seconds since 1970, as in events.jsonl.
inline double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The time of the first event of these kinds after `from`; nothing if there is none.
inline std::optional<double> event_time(const LaunchRun& run, std::initializer_list<const char*> kinds,
                                        double from = 0) {
  std::istringstream lines(read_file(run.job_directory() + "/events.jsonl", 1 << 26).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_discarded() || event["time"] < from) continue;
    if (std::ranges::find(kinds, event["event"]) != kinds.end()) return event["time"];
  }
  return std::nullopt;
}

// The hash of the parameters, as train_fashion_mnist prints it at its end; or empty.
inline std::string parameters_digest(const LaunchRun& run) {
  std::smatch found;
  const std::string out = run.out();
  return std::regex_search(out, found, std::regex("parameters xxh3 ([0-9a-f]{32})")) ? found[1].str() : "";
}

inline int count_in(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Whether the job went on in a second attempt and blamed this node.
inline void expect_recovered(LaunchRun& run, int node) {
  ASSERT_EQ(run.exit_code(), 0) << run.err();
  const auto report = run.report();
  EXPECT_EQ(report["restarts"], 1) << run.err();
  ASSERT_FALSE(report["attempts"].empty());
  EXPECT_EQ(report["attempts"][0]["culprit"]["node"], node) << run.err();
}

}  // namespace muster
