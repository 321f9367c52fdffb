// How good the searches of a sweep are: on functions with known minima, the best value after N trials, of
// many seeds; and how long a search takes for a point. sweep_quality.py compares them with Optuna's TPE.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "bench/measure.h"
#include "bench/sweep_quality/functions.h"
#include "launcher/core/sweep/search/search.h"

namespace muster::bench {
namespace {

using namespace launcher::sweep;  // NOLINT(google-build-using-namespace)

const std::map<std::string, SearchSettings::Kind> kSearches = {{"random", SearchSettings::Kind::kRandom},
                                                               {"sobol", SearchSettings::Kind::kSobol},
                                                               {"tpe", SearchSettings::Kind::kTpe},
                                                               {"bohb", SearchSettings::Kind::kBohb}};

void apply(History& history, const Event& event) {
  const auto applied = history.apply(event);
  CHECK(applied.has_value(), "{}", applied.error().message());
}

void add_finished(History& history, std::int32_t trial, const Point& point, double value) {
  apply(history, TrialCreated{.trial = trial, .point = point, .bracket = 0, .reason = {}});
  apply(history, RunBegan{.trial = trial});
  apply(history, Reported{.trial = trial, .step = 1, .values = {{"loss", value}}});
  apply(history, RunEnded{.trial = trial});
}

std::vector<double> numbers_of(const Point& point, std::size_t count) {
  std::vector<double> x;
  for (std::size_t i = 0; i < count; ++i) {
    const Value& value = point.at(fmt::format("x{}", i));
    const auto* whole = std::get_if<std::int64_t>(&value);
    x.push_back(whole ? static_cast<double>(*whole) : std::get<double>(value));
  }
  return x;
}

// The value, without noise, of the trial with the best measured one.
double best_after(int trials, const Function& function, SearchSettings settings) {
  settings.objectives = {{.metric = "loss"}};
  History history;
  std::mt19937_64 noise(settings.seed);
  double best_measured = std::numeric_limits<double>::infinity();
  double best = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const auto suggestion = suggest(settings, function.space, history);
    CHECK(suggestion.has_value());
    const auto x = numbers_of(suggestion->point, function.space.parameters.size());
    const double measured = function.measure(x, noise);
    add_finished(history, trial, suggestion->point, measured);
    if (measured >= best_measured) continue;
    best_measured = measured;
    best = function.value(x);
  }
  return best;
}

// Milliseconds of the next suggestion after `trials` finished ones, over 10 parameters: real and
// whole numbers, with and without logarithm, and choices.
std::vector<double> milliseconds_after(int trials, SearchSettings::Kind kind) {
  const auto space = parse_space(
      "lr=loguniform:1e-5:1e-1,wd=loguniform:1e-6:1e-2,dropout=uniform:0:0.5,momentum=uniform:0.8:1,"
      "units=int-log:16:1024,layers=int:1:8,warmup=int:0:1000,batch=choice:32:64:128:256,"
      "optimizer=choice:sgd:adam:adamw,clip=quniform:0.1:5:0.1");
  CHECK(space.has_value(), "{}", space.error().message());
  SearchSettings settings{.kind = SearchSettings::Kind::kRandom, .objectives = {{.metric = "loss"}}};
  History history;
  std::mt19937_64 random(1);
  for (int trial = 0; trial < trials; ++trial)
    add_finished(history, trial, suggest(settings, *space, history)->point,
                 std::normal_distribution<>()(random));
  settings.kind = kind;
  std::vector<double> milliseconds;
  for (int repeat = 0; repeat < 50; ++repeat) {
    settings.seed = static_cast<std::uint64_t>(repeat);
    const std::int64_t began = now_ns();
    CHECK(suggest(settings, *space, history).has_value());
    milliseconds.push_back(static_cast<double>(now_ns() - began) / 1e6);
  }
  return milliseconds;
}

struct Settings {
  int trials = 100;
  int seeds = 50;
  std::vector<std::string> searches = {"random", "sobol", "tpe", "bohb"};
  bool json = false;
};

void run_functions(const Settings& options) {
  nlohmann::ordered_json results;
  for (const Function& function : functions()) {
    for (const std::string& search : options.searches) {
      std::vector<double> bests;
      for (int seed = 0; seed < options.seeds; ++seed)
        bests.push_back(best_after(
            options.trials, function,
            {.kind = kSearches.at(search), .objectives = {}, .seed = static_cast<std::uint64_t>(seed)}));
      if (!options.json)
        fmt::print("{:<14} {:<7} {:>10.4g} above the minimum, median of {} seeds\n", function.name, search,
                   median(bests) - function.minimum, options.seeds);
      results[function.name][search] = bests;
    }
  }
  if (options.json) fmt::print("{}\n", results.dump());
}

int run(int argc, char** argv) {
  CLI::App app("The best value that a search finds in N trials, and the time that it takes for a point");
  Settings options;
  app.add_option("--trials", options.trials, "Trials of a sweep")->check(CLI::Range(1, 100000));
  app.add_option("--seeds", options.seeds, "Sweeps of each search")->check(CLI::Range(1, 100000));
  app.add_option("--searches", options.searches, "random, sobol, tpe, bohb")->check(CLI::IsMember(kSearches));
  app.add_flag("--json", options.json, "Print the best values as JSON, and nothing else");
  CLI11_PARSE(app, argc, argv);
  run_functions(options);
  if (options.json) return 0;
  for (const std::string& search : options.searches) {
    const auto milliseconds = milliseconds_after(1000, kSearches.at(search));
    fmt::print("{:<7} {:>8.3f} ms for a point after 1,000 trials of 10 parameters, median; {:.3f} at most\n",
               search, median(milliseconds), percentile(milliseconds, 1));
  }
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
