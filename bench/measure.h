// Shared by the benchmarks: monotonic time, medians, and a table of contenders measured in turn (A B A B ...)
// with ratios to the first contender. Prints a table, or JSON for machines.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "common/base/check.h"

namespace muster::bench {

inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline double percentile(std::vector<double> values, double fraction) {
  CHECK(!values.empty());
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1) + 0.5)];
}

inline double median(const std::vector<double>& values) {
  return percentile(values, 0.5);
}

struct Interval {
  double low = 0;
  double high = 0;
};

// The 95 % confidence interval of the ratio of the medians: a bootstrap of the pairs (a[i], b[i]), which were
// measured one after the other. Deterministic.
inline Interval ratio_interval(const std::vector<double>& a, const std::vector<double>& b) {
  CHECK(!a.empty() && a.size() == b.size());
  std::mt19937_64 random(1);
  std::vector<double> ratios;
  for (int sample = 0; sample < 2000; ++sample) {
    std::vector<double> some_a, some_b;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::size_t pair = random() % a.size();
      some_a.push_back(a[pair]);
      some_b.push_back(b[pair]);
    }
    ratios.push_back(median(some_a) / median(some_b));
  }
  return {percentile(ratios, 0.025), percentile(ratios, 0.975)};
}

// One contender's values in one case ("4 ranks").
struct Series {
  std::string contender;
  std::vector<double> values;
  std::string note;  // the problem, or the reason for missing values
};

// Keeps the order of the rows. A ratio is a row's median divided by the first row's.
inline void print_table(const std::string& title, const std::string& unit, const std::vector<Series>& rows) {
  fmt::print("{}\n  {:<28}{:>10}{:>10}{:>10}{:>6}{:>9}\n", title, "", "median", "min", "max", "n", "ratio");
  const double base = rows.empty() || rows[0].values.empty() ? 0 : median(rows[0].values);
  for (const Series& row : rows) {
    if (row.values.empty()) {
      fmt::print("  {:<28}  {}\n", row.contender, row.note.empty() ? "not measured" : row.note);
      continue;
    }
    const double middle = median(row.values);
    fmt::print("  {:<28}{:>10.2f}{:>10.2f}{:>10.2f}{:>6}{:>9}{}\n", row.contender, middle,
               percentile(row.values, 0), percentile(row.values, 1), row.values.size(),
               base > 0 ? fmt::format("{:.2f}", middle / base) : "", row.note.empty() ? "" : "  " + row.note);
  }
  fmt::print("  ({})\n", unit);
}

inline nlohmann::json to_json(const std::string& title, const std::string& unit,
                              const std::vector<Series>& rows) {
  nlohmann::json out = {{"title", title}, {"unit", unit}, {"rows", nlohmann::json::array()}};
  for (const Series& row : rows) {
    nlohmann::json item = {{"contender", row.contender}, {"values", row.values}, {"note", row.note}};
    if (!row.values.empty()) item["median"] = median(row.values);
    out["rows"].push_back(std::move(item));
  }
  return out;
}

// Prints each table when it is measured or, with --json, an array of all tables at the end.
class Report {
 public:
  explicit Report(bool json) : json_(json) {}

  void add(const std::string& title, const std::string& unit, const std::vector<Series>& rows) {
    if (json_)
      tables_.push_back(to_json(title, unit, rows));
    else
      print_table(title, unit, rows);
    std::fflush(stdout);
  }
  void end() const {
    if (json_) fmt::print("{}\n", tables_.dump(2));
  }

 private:
  bool json_;
  nlohmann::json tables_ = nlohmann::json::array();
};

}  // namespace muster::bench
