// chaos --trials N --seed S [--only FAULT] [--trial I] [--json]: runs jobs with injected faults, and checks
// them.
//
// Prints a line for each trial and a table. The last line is "N passed, M failed"; exit code 1 if any failed.
#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <unistd.h>

#include "common/base/text.h"
#include "tests/chaos/fault.h"
#include "tests/chaos/samples.h"
#include "tests/chaos/trial.h"

namespace muster::chaos {
namespace {

struct Options {
  std::uint64_t trials = 10;
  std::uint64_t seed = std::random_device{}();
  std::optional<std::uint64_t> trial;
  std::string only;
  bool json = false;
};

struct Row {
  int trials = 0, failed = 0, blamed = 0, blamed_right = 0, leftovers = 0, false_successes = 0;
  std::vector<double> detection, recovery;  // ms
};

template <class Number>
bool take(const std::string& text, Number& number) {
  const auto read = parse_number<std::uint64_t>(text);
  if (read) number = *read;
  return read.has_value();
}

bool read_options(const std::vector<std::string>& words, Options& options) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--json") {
      options.json = true;
      continue;
    }
    if (i + 1 == words.size()) return false;
    const std::string& value = words[i + 1];
    bool good = true;
    if (words[i] == "--trials") {
      good = take(value, options.trials);
    } else if (words[i] == "--seed") {
      good = take(value, options.seed);
    } else if (words[i] == "--trial") {
      good = take(value, options.trial);
    } else if (words[i] == "--only") {
      options.only = value;
    } else {
      good = false;
    }
    if (!good) return false;
    ++i;
  }
  return true;
}

std::string figures(std::vector<double> values) {
  if (values.empty()) return "-";
  std::ranges::sort(values);
  return fmt::format("{:.0f} / {:.0f}", values[values.size() / 2], values.back());
}

double ms(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

void add(Row& row, const TrialResult& result) {
  ++row.trials;
  row.failed += result.violations.empty() ? 0 : 1;
  row.leftovers += result.leftover_count;
  row.false_successes += result.false_success ? 1 : 0;
  if (result.culprit_right) {
    ++row.blamed;
    row.blamed_right += *result.culprit_right ? 1 : 0;
  }
  if (result.detection) row.detection.push_back(ms(*result.detection));
  if (result.recovery) row.recovery.push_back(ms(*result.recovery));
}

void print_table(const std::map<std::string, Row>& rows) {
  fmt::print("\n{:<14} {:>6} {:>6} {:>13} {:>20} {:>20} {:>7} {:>15}\n", "fault", "trials", "failed",
             "culprit right", "detection ms med/max", "recovery ms med/max", "leftovers", "false successes");
  for (const auto& [name, row] : rows)
    fmt::print("{:<14} {:>6} {:>6} {:>13} {:>20} {:>20} {:>7} {:>15}\n", name, row.trials, row.failed,
               fmt::format("{} of {}", row.blamed_right, row.blamed), figures(row.detection),
               figures(row.recovery), row.leftovers, row.false_successes);
}

void print_json(const std::map<std::string, Row>& rows, const Options& options) {
  nlohmann::ordered_json all = {{"seed", options.seed}, {"faults", nlohmann::ordered_json::array()}};
  for (const auto& [name, row] : rows)
    all["faults"].push_back({{"fault", name},
                             {"trials", row.trials},
                             {"failed", row.failed},
                             {"culprit_asked", row.blamed},
                             {"culprit_right", row.blamed_right},
                             {"detection_ms", row.detection},
                             {"recovery_ms", row.recovery},
                             {"leftovers", row.leftovers},
                             {"false_successes", row.false_successes}});
  fmt::print("{}\n", all.dump());
}

// Takes the kinds in turns, in an order that the seed determines: the same on every machine, even if some
// kinds cannot happen there.
std::vector<std::size_t> kinds_of(const Options& options) {
  std::vector<std::size_t> kinds;
  for (std::size_t i = 0; i < fault_kinds().size(); ++i) {
    if (options.only.empty() || fault_kinds()[i].name == options.only) kinds.push_back(i);
  }
  std::mt19937_64 random(options.seed);
  std::ranges::shuffle(kinds, random);
  return kinds;
}

int run(const Options& options) {
  const std::vector<std::size_t> kinds = kinds_of(options);
  if (kinds.empty()) {
    fmt::print(stderr, "chaos: --only {}: no such fault\n", options.only);
    return 2;
  }
  FILE* const out = options.json ? stderr : stdout;
  fmt::print(out, "chaos: {} trials, seed {}\n", options.trials, options.seed);
  std::map<std::string, Row> rows;
  int failed = 0, done = 0, left_out = 0;
  for (std::uint64_t i = options.trial.value_or(0); i < (options.trial ? *options.trial + 1 : options.trials);
       ++i) {
    const TrialPlan plan = make_plan(mix(options.seed * 1000003 + i), kinds[i % kinds.size()]);
    if (const std::string why = plan.why_not(); !why.empty()) {
      fmt::print(out, "trial {}: left out: {}\n", i, why);
      ++left_out;
      continue;
    }
    const TimePoint began = Clock::now();
    const TrialResult result = run_trial(plan);
    add(rows[fault_kinds()[plan.fault].name], result);
    ++done;
    fmt::print(out, "trial {}: {} ({:.1f} s): {}\n", i, result.violations.empty() ? "passed" : "FAILED",
               ms(Clock::now() - began) / 1000, plan.text());
    for (const std::string& violation : result.violations) fmt::print(out, "  {}\n", violation);
    failed += result.violations.empty() ? 0 : 1;
    (void)std::fflush(out);
  }
  options.json ? print_json(rows, options) : print_table(rows);
  const std::string rest = left_out == 0 ? "" : fmt::format(", {} left out", left_out);
  fmt::print(out, "{} passed, {} failed{} (seed {})\n", done - failed, failed, rest, options.seed);
  if (done == 0) fmt::print(stderr, "chaos: no trial was made\n");
  return failed == 0 && done > 0 ? 0 : 1;
}

}  // namespace
}  // namespace muster::chaos

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  muster::chaos::Options options;
  if (!muster::chaos::read_options({argv + 1, argv + argc}, options)) {
    fmt::print(stderr, "usage: chaos [--trials N] [--seed S] [--only FAULT] [--trial I] [--json]\n");
    return 2;
  }
  return muster::chaos::run(options);
}
