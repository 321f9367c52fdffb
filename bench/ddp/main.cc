// The step time of a training on two ranks over Gloo, compared with Python's DistributedDataParallel of the
// same LibTorch, and how much of the reduction happens during the backward pass.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <sys/wait.h>

#include "bench/command.h"
#include "bench/measure.h"
#include "tests/scratch_directory.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;

struct Contender {
  std::string name;
  Command command;
};

struct Case {
  std::string net;
  int steps = 0;
  std::string title;
};

// Reads the result of a run from this file.
void add_run(const Command& command, const fs::path& file, Series& row) {
  fs::remove(file);
  fs::remove(file.string() + ".store");
  const pid_t pid = spawn(command);
  int status = 0;
  const bool ended_well = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
  const double value = ended_well ? std::atof(read_file(file, 64).value_or("").c_str()) : 0;
  if (value > 0)
    row.values.push_back(value);
  else
    row.note = "a run failed";
}

std::vector<Series> compare(const std::vector<Contender>& all, const Case& training, int runs,
                            const fs::path& scratch) {
  std::vector<Series> rows;
  for (const Contender& each : all) rows.push_back({each.name, {}, {}});
  const fs::path file = scratch / "milliseconds";
  for (int run = 0; run < runs; ++run)
    for (std::size_t i = 0; i < all.size(); ++i) {
      Command command = all[i].command;
      command.insert(command.end(), {training.net, std::to_string(training.steps), file});
      add_run(command, file, rows[i]);
    }
  return rows;
}

int run(int argc, char** argv) {
  CLI::App app("Step time of DistributedDataParallel, compared with Python's");
  int runs = 9;
  bool json = false, trace = true;
  std::string python = torch_program("python3");
  app.add_option("--runs", runs, "Runs of each contender, in turn")->check(CLI::Range(1, 1000));
  app.add_option("--python", python, "A Python with torch; skipped if it does not exist");
  app.add_flag("--trace,!--no-trace", trace, "Print the times of one backward pass");
  app.add_flag("--json", json, "Print JSON");
  CLI11_PARSE(app, argc, argv);

  setenv("OMP_NUM_THREADS", "1", 0);
  const fs::path bin = own_folder();
  const ScratchDirectory scratch;
  std::vector<Contender> all;
  if (fs::exists(python)) all.push_back({"Python", {python, (bin / "ddp_step.py").string()}});
  all.push_back({"Muster", {(bin / "ddp_step").string()}});
  Report report(json);
  for (const Case& each : {Case{"cnn", 100, "the demo's CNN, batch 64: step time on 2 ranks"},
                           Case{"tiny", 500, "20 layers of 32 x 32, batch 16: step time on 2 ranks"}}) {
    const auto rows = compare(all, each, runs, scratch.path());
    report.add(each.title, "milliseconds, medians of the runs' medians", rows);
  }
  report.end();
  if (trace && !json) return std::system((bin / "ddp_step").string().append(" trace").c_str());
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
