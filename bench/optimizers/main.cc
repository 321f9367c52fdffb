// A step of fused AdamW, compared with LibTorch's loop and Python's fused AdamW, over the parameters of
// ResNet-50 and of a transformer with 100 million; a rank's state with ZeroRedundancyOptimizer, compared with
// the formula; and the time that a logger and a progress bar add to a step.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sys/wait.h>

#include "bench/command.h"
#include "bench/measure.h"
#include "tests/scratch_directory.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;

struct Settings {
  int runs = 7;
  int steps = 20;
  int log_steps = 3000;
  std::string python;
  fs::path bin;
  fs::path scratch;
};

bool ended_well(const Command& command) {
  const pid_t pid = spawn(command);
  int status = 0;
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

std::vector<Series> steps_of(const std::string& model, const Settings& settings) {
  const std::string program = settings.bin / "optimizers_step";
  const std::string file = settings.scratch / "milliseconds";
  std::vector<std::pair<std::string, Command>> contenders;
  if (fs::exists(settings.python))
    contenders.push_back(
        {"Python, fused=True", {settings.python, settings.bin / "optimizers_step.py", model}});
  contenders.push_back({"torch::optim::AdamW", {program, "loop", model}});
  contenders.push_back({"muster::FusedAdamW", {program, "fused", model}});
  std::vector<Series> rows;
  for (const auto& [name, command] : contenders) rows.push_back({name, {}, {}});
  for (int run = 0; run < settings.runs; ++run) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      Command command = contenders[i].second;
      command.insert(command.end(), {std::to_string(settings.steps), file});
      fs::remove(file);
      if (ended_well(command))
        rows[i].values.push_back(std::atof(read_file(file, 64).value_or("").c_str()));
      else
        rows[i].note = "a run failed";
    }
  }
  return rows;
}

// The limit is an equal share plus the largest parameter, because shares consist of whole parameters.
void print_zero(const std::string& model, const Settings& settings) {
  fmt::print("{}: MiB of AdamW's state per rank with ZeroRedundancyOptimizer\n", model);
  for (const int ranks : {1, 2, 4}) {
    const std::string file = settings.scratch / "zero";
    if (!ended_well({settings.bin / "optimizers_step", "zero", model, std::to_string(ranks), file})) {
      fmt::print("  {} ranks  a run failed\n", ranks);
      continue;
    }
    double most = 0;
    double all = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      double own = 0;
      std::ifstream(fmt::format("{}.{}", file, rank)) >> own >> all;
      most = std::max(most, own);
    }
    constexpr double kMiB = 1 << 20;
    fmt::print("  {} ranks  {:>8.1f} at most, all / ranks is {:>8.1f}\n", ranks, most / kMiB,
               all / ranks / kMiB);
  }
}

void print_log(const Settings& settings) {
  const std::string file = settings.scratch / "nanoseconds";
  if (!ended_well({settings.bin / "optimizers_step", "log", "-", std::to_string(settings.log_steps), file})) {
    fmt::print("logger and progress bar: the run failed\n");
    return;
  }
  std::vector<double> added;
  std::ifstream pairs(file);
  for (double plain = 0, logged = 0; pairs >> plain >> logged;) added.push_back((logged - plain) / 1e3);
  // The interval of the median: the values at the ranks of a binomial distribution.
  const double half = 0.98 / std::sqrt(static_cast<double>(added.size()));
  fmt::print(
      "logger (three files) and progress bar add {:.1f} us to a step, 95 % interval {:.1f} to {:.1f}\n",
      median(added), percentile(added, 0.5 - half), percentile(added, 0.5 + half));
}

// If two contenders are about equally fast, the medians alone only show which was luckier.
void print_ratio(const std::vector<Series>& rows) {
  const auto &python = rows.front().values, &fused = rows.back().values;
  if (rows.size() != 3 || python.empty() || python.size() != fused.size()) return;
  const auto [low, high] = ratio_interval(fused, python);
  fmt::print("  FusedAdamW to Python's {:.3f}, 95 % interval {:.3f} to {:.3f}\n",
             median(fused) / median(python), low, high);
}

int run(int argc, char** argv) {
  CLI::App app("A step of fused optimizers, the state of sharded optimizers, and the cost of logging");
  Settings settings;
  bool json = false;
  settings.python = torch_program("python3");
  app.add_option("--runs", settings.runs, "Runs of each contender, in turn")->check(CLI::Range(1, 1000));
  app.add_option("--steps", settings.steps, "Steps of a run")->check(CLI::Range(1, 100000));
  app.add_option("--log-steps", settings.log_steps, "Steps with a logger")->check(CLI::Range(100, 1000000));
  app.add_option("--python", settings.python, "A Python with torch; skipped if it does not exist");
  app.add_flag("--json", json, "Print the steps as JSON, and nothing else");
  CLI11_PARSE(app, argc, argv);
  settings.bin = own_folder();
  const ScratchDirectory scratch;
  settings.scratch = scratch.path();
  Report report(json);
  for (const char* const model : {"resnet50", "transformer"}) {
    const std::string title = fmt::format("{}: a step of AdamW, one thread", model);
    const auto rows = steps_of(model, settings);
    report.add(title, "milliseconds, medians of the runs' medians", rows);
    if (!json) print_ratio(rows);
  }
  report.end();
  if (!json) {
    for (const char* const model : {"resnet50", "transformer"}) print_zero(model, settings);
    print_log(settings);
  }
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
