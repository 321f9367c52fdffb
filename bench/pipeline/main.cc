// A step of every pipeline schedule on two ranks over Gloo or shared memory, one thread each. Compares its
// time with the schedule's time from the stages' own times, with torch.distributed.pipelining and with a
// single process; and its memory with the formula.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/command.h"
#include "bench/measure.h"
#include "tests/scratch_directory.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::vector<std::string> kSchedules{"GPipe",         "1F1B",     "Interleaved1F1B",
                                          "LoopedBFS",     "ZBH1",     "InterleavedZeroBubble",
                                          "ZBVZeroBubble", "DualPipeV"};

Json result_of(Command command, const fs::path& file) {
  fs::remove(file);
  fs::remove(file.string() + ".store");
  command.push_back(file);
  const pid_t pid = spawn(command);
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) return Json::object();
  std::ifstream read(file);
  return Json::parse(read, nullptr, /*allow_exceptions=*/false);
}

void add(Series& row, const Json& result, const std::string& schedule, const std::string& what) {
  if (!result.contains(schedule))
    row.note = "a run failed";
  else
    row.values.push_back(median(result[schedule][what].get<std::vector<double>>()));
}

// The measurements of one schedule. Each run adds one value: the median of its steps.
struct Rows {
  std::string schedule;
  Series simulated{"simulated", {}, {}}, without_bubble{"without bubble", {}, {}}, muster{"Muster", {}, {}},
      python{"Python", {}, {}}, single{"single process", {}, {}};
};

std::vector<Rows> measure(const std::string& net, int steps, int runs, const Command& ours,
                          const Command& theirs, const fs::path& file) {
  std::vector<Rows> all;
  for (const std::string& each : kSchedules) all.emplace_back().schedule = each;
  const auto run = [&](Command command) {
    command.insert(command.end(), {net, std::to_string(steps)});
    return result_of(command, file);
  };
  for (int i = 0; i < runs; ++i) {
    const Json mine = run(ours);
    const Json python = theirs.empty() ? Json::object() : run(theirs);
    for (Rows& each : all) {
      add(each.simulated, mine, each.schedule, "simulated");
      add(each.without_bubble, mine, each.schedule, "without bubble");
      add(each.muster, mine, each.schedule, "step");
      add(each.single, mine, "single process", "step");
      add(each.python, python, each.schedule, "step");
    }
  }
  return all;
}

std::string cell(const Series& row) {
  return row.values.empty() ? "-" : fmt::format("{:.1f}", median(row.values));
}
std::string ratio(const Series& row, const Series& to) {
  if (row.values.size() != to.values.size() || row.values.empty()) return "-";
  std::vector<double> ratios;  // of values measured in the same run
  for (std::size_t i = 0; i < row.values.size(); ++i) ratios.push_back(row.values[i] / to.values[i]);
  return fmt::format("{:.3f}", median(ratios));
}

void print_steps(const std::string& title, const std::vector<Rows>& all) {
  fmt::print("{}\n  {:<22}{:>10}{:>10}{:>9}{:>10}{:>9}{:>10}{:>11}{:>9}{:>9}\n", title, "", "simulated",
             "Muster", "ratio", "Python", "ratio", "ours to", "no bubble", "ratio", "single");
  for (const Rows& each : all)
    fmt::print("  {:<22}{:>10}{:>10}{:>9}{:>10}{:>9}{:>10}{:>11}{:>9}{:>9}\n", each.schedule,
               cell(each.simulated), cell(each.muster), ratio(each.muster, each.simulated), cell(each.python),
               ratio(each.python, each.simulated), ratio(each.muster, each.python), cell(each.without_bubble),
               ratio(each.muster, each.without_bubble), cell(each.single));
}

void print_memory(const Json& memory) {
  fmt::print("peak memory of a step, wide net, MiB\n  {:<22}", "");
  for (int rank = 0; rank < 2; ++rank)
    fmt::print("{:>16}{:>10}{:>8}", fmt::format("rank {}: formula", rank), "peak", "ratio");
  for (const std::string& each : kSchedules) {
    fmt::print("\n  {:<22}", each);
    if (!memory.contains(each)) fmt::print("a run failed");
    for (const Json& rank : memory.value(each, Json::array())) {
      const double formula = rank["formula"], peak = rank["peak"];
      fmt::print("{:>16.1f}{:>10.1f}{:>8.2f}", formula, peak, peak / formula);
    }
  }
  fmt::print("\n");
}

// Measures each model with each way to cut it.
Json measure_splits(int rounds, const Command& ours, const fs::path& file) {
  Command command = ours;
  command.insert(command.end(), {"split", std::to_string(rounds)});
  return result_of(command, file);
}

double median_ratio(const Json& of, const Json& to) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < of.size(); ++i) ratios.push_back(of[i].get<double>() / to[i].get<double>());
  return median(ratios);
}

void print_splits(const Json& all) {
  fmt::print("a split's prediction of a GPipe step, milliseconds\n  {:<16}{:>10}{:>11}{:>10}{:>9}\n", "",
             "cut", "predicted", "step", "ratio");
  for (const auto& [model, ways] : all.items()) {
    for (const auto& [by, times] : ways.items())
      fmt::print("  {:<16}{:>10}{:>11.1f}{:>10.1f}{:>9.3f}\n", model, by,
                 median(times["predicted"].get<std::vector<double>>()),
                 median(times["step"].get<std::vector<double>>()),
                 median_ratio(times["step"], times["predicted"]));
    fmt::print("  {:<16}profile to uniform: predicted {:.3f}, measured {:.3f}\n", model,
               median_ratio(ways["profile"]["predicted"], ways["uniform"]["predicted"]),
               median_ratio(ways["profile"]["step"], ways["uniform"]["step"]));
  }
}

int run(int argc, char** argv) {
  CLI::App app("Steps of pipelines, compared with Python's and with their schedules' predictions");
  int runs = 5, steps = 5;
  bool json = false;
  std::string backend = "gloo";
  std::string python = torch_program("python3");
  app.add_option("--runs", runs, "Runs of each contender, in turn")->check(CLI::Range(1, 1000));
  app.add_option("--steps", steps, "Steps of each schedule in a run")->check(CLI::Range(1, 1000));
  app.add_option("--backend", backend, "The backend of our ranks")->check(CLI::IsMember({"gloo", "shm"}));
  app.add_option("--python", python, "A Python with torch; skipped if it does not exist");
  app.add_flag("--json", json, "Print JSON");
  CLI11_PARSE(app, argc, argv);

  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("MUSTER_BACKEND", backend.c_str(), 1);
  const fs::path bin = own_folder();
  const ScratchDirectory scratch;
  const Command ours{bin / "pipeline_run"};
  const Command theirs =
      fs::exists(python) ? Command{python, "-B", (bin / "pipeline_run.py").string()} : Command{};
  const fs::path file = scratch / "result";
  struct Case {
    std::string net, title;
    int steps;
  };
  Json report = Json::array();
  bool failed = false;
  for (const Case& each :
       {Case{"wide", "32 layers of 512 x 512, 16 microbatches of 128: milliseconds of a step", steps},
        Case{"tiny", "20 layers of 32 x 32, 32 microbatches of 16: milliseconds of a step", 4 * steps}}) {
    const auto all = measure(each.net, each.steps, runs, ours, theirs, file);
    for (const Rows& rows : all) {
      failed = failed || rows.muster.values.empty();
      report.push_back(to_json(fmt::format("{}, {}", rows.schedule, each.title), "milliseconds",
                               {rows.simulated, rows.muster, rows.python, rows.without_bubble, rows.single}));
    }
    if (!json) print_steps(each.title, all);
  }
  const Json splits = measure_splits(2 * runs, ours, file);
  report.push_back(
      {{"title", "a split's prediction of a step"}, {"unit", "milliseconds"}, {"models", splits}});
  if (!json) print_splits(splits);
  const Json memory = result_of({ours.front(), "memory"}, file);
  report.push_back({{"title", "peak memory of a step"}, {"unit", "MiB"}, {"ranks", memory}});
  if (json)
    fmt::print("{}\n", report.dump(2));
  else
    print_memory(memory);
  return failed || memory.empty() || splits.empty() ? 1 : 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
