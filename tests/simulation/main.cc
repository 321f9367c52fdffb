// simulate: runs launcher and agents on virtual time, with faults drawn from a seed, and checks the
// guarantees of docs/architecture.md.
//
//   simulate --seeds N [--first S] [--nodes 8] [--ranks 4] [--json]
//   simulate --seed S [--nodes 8] [--ranks 4] [--trace] [--shrink] [--json]
//   simulate --sweeps --seeds N [--first S] [--json]
//   simulate --sweeps --seed S [--trace] [--json]
//
// --sweeps: sweeps in place of jobs.
//
// The last line is "N seeds, F failed, E events, K kinds of fault, T s". Exit code 1 if any seed failed, with
// the command that repeats it; 2 for bad input.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/simulation/runner.h"
#include "tests/simulation/sweeps.h"

namespace muster::simulation {
namespace {

struct Flags {
  std::optional<std::uint64_t> seeds;
  std::optional<std::uint64_t> seed;
  std::uint64_t first = 0;
  Size size;
  bool trace = false;
  bool shrink = false;
  bool json = false;
  bool sweeps = false;
};

struct Totals {
  std::uint64_t seeds = 0;
  std::uint64_t failed = 0;
  std::uint64_t events = 0;
  double virtual_seconds = 0;
  std::uint64_t ended = 0;  // seeds that did not crash
  double shortest = 0;
  int fewest_faults = 0;
  std::array<int, kFaultKindCount> faults{};
  std::vector<SeedResult> failures;

  void add(const SeedResult& result) {
    int count = 0;
    for (std::size_t kind = 0; kind < kFaultKindCount; ++kind) {
      faults[kind] += result.faults[kind];
      count += result.faults[kind];
    }
    const bool crashed = result.event_count == 0;
    if (!crashed) {
      const bool is_first = ended++ == 0;
      shortest = is_first ? result.virtual_seconds : std::min(shortest, result.virtual_seconds);
      fewest_faults = is_first ? count : std::min(fewest_faults, count);
    }
    ++seeds;
    events += result.event_count;
    virtual_seconds += result.virtual_seconds;
    if (result.failures.empty()) return;
    ++failed;
    failures.push_back(result);
  }
};

void read_flags(int argc, char** argv, Flags& flags) {
  CLI::App app("Launcher and agents on virtual time, disturbed by faults", "simulate");
  app.option_defaults()->always_capture_default();
  auto* seeds = app.add_option("--seeds", flags.seeds, "How many seeds")->check(CLI::Range(1, 1'000'000'000));
  auto* seed =
      app.add_option("--seed", flags.seed, "One seed alone")->check(CLI::NonNegativeNumber)->excludes(seeds);
  app.add_option("--first", flags.first, "The first of --seeds")->check(CLI::NonNegativeNumber)->needs(seeds);
  app.add_option("--nodes", flags.size.nodes, "Nodes of a job")->check(CLI::Range(1, 1000));
  app.add_option("--ranks", flags.size.ranks, "Ranks of a node")->check(CLI::Range(1, 64));
  app.add_flag("--trace", flags.trace, "Print a line for each event, with its virtual time")->needs(seed);
  app.add_flag("--shrink", flags.shrink, "Shrink a seed that fails to the fewest faults")->needs(seed);
  app.add_flag("--json", flags.json, "The result as one JSON document");
  auto* sweeps = app.add_flag("--sweeps", flags.sweeps, "Sweeps in place of jobs");
  for (const char* of_jobs : {"--nodes", "--ranks", "--shrink"}) sweeps->excludes(app.get_option(of_jobs));
  try {
    app.parse(argc, argv);
    if (!flags.seeds && !flags.seed) throw CLI::RequiredError("--seeds N or --seed S");
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    std::exit(0);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "simulate: %s\n", error.what());
    std::exit(2);
  }
}

std::string replay_command(std::uint64_t seed, const Size& size) {
  std::string command = fmt::format("simulate --seed {}", seed);
  if (size.nodes != Size().nodes) command += fmt::format(" --nodes {}", size.nodes);
  if (size.ranks != Size().ranks) command += fmt::format(" --ranks {}", size.ranks);
  return command;
}

void print_json(const Flags& flags, const Totals& totals, int kinds, double took) {
  nlohmann::ordered_json document{{"seeds", totals.seeds},
                                  {"failed", totals.failed},
                                  {"events", totals.events},
                                  {"kinds", kinds},
                                  {"seconds", took},
                                  {"virtual_seconds", totals.virtual_seconds},
                                  {"shortest_virtual_seconds", totals.shortest},
                                  {"fewest_faults", totals.fewest_faults}};
  for (std::size_t kind = 0; kind < kFaultKindCount; ++kind)
    document["faults"][std::string(name_of(static_cast<FaultKind>(kind)))] = totals.faults[kind];
  document["failures"] = nlohmann::ordered_json::array();
  for (const SeedResult& each : totals.failures)
    document["failures"].push_back({{"seed", each.seed},
                                    {"replay", replay_command(each.seed, flags.size)},
                                    {"findings", each.failures}});
  std::printf("%s\n", document.dump(2).c_str());
}

void print_text(const Flags& flags, const Totals& totals, int kinds, double took) {
  if (flags.seeds) {
    for (std::size_t kind = 0; kind < kFaultKindCount; ++kind)
      std::printf("%7d %s\n", totals.faults[kind],
                  std::string(name_of(static_cast<FaultKind>(kind))).c_str());
    std::printf("virtual time: %.1f minutes a seed, the shortest %.1f; faults: %.1f a seed, the fewest %d\n",
                totals.virtual_seconds / 60 / static_cast<double>(totals.seeds), totals.shortest / 60,
                static_cast<double>(std::accumulate(totals.faults.begin(), totals.faults.end(), 0)) /
                    static_cast<double>(totals.seeds),
                totals.fewest_faults);
  }
  std::printf("%llu seeds, %llu failed, %llu events, %d kinds of fault, %.1f s\n",
              static_cast<unsigned long long>(totals.seeds), static_cast<unsigned long long>(totals.failed),
              static_cast<unsigned long long>(totals.events), kinds, took);
}

void tell_failure(const SeedResult& result, const Size& size) {
  for (const std::string& each : result.failures)
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(result.seed), each.c_str());
  std::printf("again: %s\n", replay_command(result.seed, size).c_str());
}

int run(const Flags& flags) {
  const auto began = std::chrono::steady_clock::now();
  Totals totals;
  const auto done = [&](const SeedResult& result) {
    totals.add(result);
    if (!result.failures.empty() && !flags.json) tell_failure(result, flags.size);
    std::fflush(stdout);
  };
  if (flags.seeds) {
    run_seeds(flags.first, *flags.seeds, flags.size, done);
  } else {
    Script script = long_script(*flags.seed, flags.size.nodes, flags.size.ranks);
    if (flags.shrink) {
      script = shrink(*flags.seed, flags.size);
      std::printf("%zu faults are left:\n%s", script.faults.size(), describe(script).c_str());
      std::fflush(stdout);
    }
    std::function<void(const std::string&)> trace;
    if (flags.trace) trace = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
    done(run_script(script, *flags.seed, trace));
  }
  std::ranges::sort(totals.failures, {}, &SeedResult::seed);
  const int kinds =
      static_cast<int>(std::ranges::count_if(totals.faults, [](int count) { return count > 0; }));
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (flags.json) {
    print_json(flags, totals, kinds, took);
  } else {
    print_text(flags, totals, kinds, took);
  }
  return totals.failed == 0 ? 0 : 1;
}

int run_sweeps(const Flags& flags) {
  const auto began = std::chrono::steady_clock::now();
  std::array<int, kSweepFaultCount> faults{};
  std::uint64_t events = 0;
  nlohmann::ordered_json failures = nlohmann::ordered_json::array();
  std::function<void(const std::string&)> trace;
  if (flags.trace) trace = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  const std::uint64_t first = flags.seed.value_or(flags.first);
  const std::uint64_t count = flags.seeds.value_or(1);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const SweepSeedResult result = run_sweep_seed(seed, trace);
    for (std::size_t kind = 0; kind < kSweepFaultCount; ++kind) faults[kind] += result.faults[kind];
    events += result.event_count;
    if (flags.seed && !flags.json) std::printf("%s\n", result.summary.c_str());
    if (result.failures.empty()) continue;
    const std::string replay = fmt::format("simulate --sweeps --seed {}", seed);
    failures.push_back({{"seed", seed}, {"replay", replay}, {"findings", result.failures}});
    if (flags.json) continue;
    for (const std::string& each : result.failures)
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), each.c_str());
    std::printf("again: %s\n", replay.c_str());
    std::fflush(stdout);
  }
  const auto kinds = std::ranges::count_if(faults, [](int each) { return each > 0; });
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  nlohmann::ordered_json document{
      {"seeds", count}, {"failed", failures.size()}, {"events", events}, {"kinds", kinds}, {"seconds", took}};
  for (std::size_t kind = 0; kind < kSweepFaultCount; ++kind) {
    const std::string name(name_of(static_cast<SweepFault>(kind)));
    document["faults"][name] = faults[kind];
    if (!flags.json && flags.seeds) std::printf("%7d %s\n", faults[kind], name.c_str());
  }
  document["failures"] = failures;
  if (flags.json) std::printf("%s\n", document.dump(2).c_str());
  if (!flags.json)
    std::printf("%llu seeds, %zu failed, %llu events, %d kinds of fault, %.1f s\n",
                static_cast<unsigned long long>(count), failures.size(),
                static_cast<unsigned long long>(events), static_cast<int>(kinds), took);
  return failures.empty() ? 0 : 1;
}

}  // namespace
}  // namespace muster::simulation

int main(int argc, char** argv) {
  muster::simulation::Flags flags;
  muster::simulation::read_flags(argc, argv, flags);
  return flags.sweeps ? muster::simulation::run_sweeps(flags) : muster::simulation::run(flags);
}
