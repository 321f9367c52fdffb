// The time of a whole training command: launch with the Fashion-MNIST example, one epoch on two ranks with
// checkpoints and a final test, compared with torchrun and the same training in Python.
//
//   end_to_end [--runs 5] [--workers 0,1] [--data-dir DIR] [--torchrun PATH] [--json]
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "bench/command.h"
#include "bench/measure.h"
#include "tests/scratch_directory.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;

struct Settings {
  int runs = 5;
  std::vector<int> workers = {0, 1};  // loader threads or processes per rank
  std::string data_dir = "/usr/share/datasets/fashion-mnist";
  std::string torchrun;
  bool json = false;
};

struct Contender {
  std::string name;
  Command command;
};

Contender ours(const fs::path& bin, const Settings& settings, int workers, const fs::path& scratch) {
  return {
      fmt::format("launch, {} loader threads", workers),
      {(bin / "launch").string(), "--gpus-per-node", "2", "--device", "cpu", "--log-dir", scratch / "logs",
       "--checkpoint-dir", scratch / "checkpoints", (bin / "train_fashion_mnist").string(), "--epochs", "1",
       "--num-workers", std::to_string(workers), "--data-dir", settings.data_dir}};
}

Contender theirs(const fs::path& bin, const Settings& settings, int workers, const fs::path& scratch) {
  return {fmt::format("torchrun, {} loader processes", workers),
          {settings.torchrun, "--standalone", "--nproc-per-node", "2", (bin / "end_to_end.py").string(),
           settings.data_dir, std::to_string(workers), scratch / "checkpoint.pt"}};
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

// Removes checkpoints, so that a run does not resume from the previous one.
void add_run(const Contender& contender, const fs::path& scratch, Series& wall, Series& cpu) {
  fs::remove_all(scratch / "checkpoints");
  const double used = cpu_seconds();
  const std::int64_t began = now_ns();
  const pid_t pid = spawn(contender.command);
  int status = 0;
  const bool ended_well = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
  if (!ended_well) {
    wall.note = cpu.note = fmt::format("a run ended with status {:#x}", status);
    return;
  }
  wall.values.push_back(static_cast<double>(now_ns() - began) / 1e9);
  cpu.values.push_back(cpu_seconds() - used);
}

int measure(const fs::path& bin, const Settings& settings, const fs::path& scratch) {
  std::vector<Contender> all;
  for (const int workers : settings.workers) {
    if (!settings.torchrun.empty()) all.push_back(theirs(bin, settings, workers, scratch));
  }
  for (const int workers : settings.workers) all.push_back(ours(bin, settings, workers, scratch));
  std::vector<Series> wall, cpu;
  for (const Contender& each : all) {
    wall.push_back({each.name, {}, {}});
    cpu.push_back({each.name, {}, {}});
  }
  for (int run = 0; run < settings.runs; ++run)
    for (std::size_t i = 0; i < all.size(); ++i) add_run(all[i], scratch, wall[i], cpu[i]);
  const std::string job = "one epoch of Fashion-MNIST on 2 ranks, start to end";
  if (settings.json) {
    const nlohmann::json report{to_json(job + ": elapsed time", "seconds", wall),
                                to_json(job + ": processor time", "seconds", cpu)};
    fmt::print("{}\n", report.dump(2));
  } else {
    print_table(job + ": elapsed time", "seconds", wall);
    print_table(job + ": processor time", "seconds, of all processes", cpu);
  }
  const auto failed = [](const Series& row) { return !row.note.empty(); };
  return std::ranges::any_of(wall, failed) ? 1 : 0;
}

int run(int argc, char** argv) {
  CLI::App app("A whole training job, compared with torchrun and Python");
  Settings settings;
  settings.torchrun = torch_program("torchrun");
  app.add_option("--runs", settings.runs, "Runs of each contender, in turn")->check(CLI::Range(1, 1000));
  app.add_option("--workers", settings.workers, "Loader threads or processes per rank")->delimiter(',');
  app.add_option("--data-dir", settings.data_dir, "Folder of the IDX files")->check(CLI::ExistingDirectory);
  app.add_option("--torchrun", settings.torchrun, "The torchrun program; skipped if it does not exist");
  app.add_flag("--json", settings.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  if (!fs::exists(settings.torchrun)) settings.torchrun.clear();
  const ScratchDirectory scratch;
  return measure(own_folder(), settings, scratch.path());
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
