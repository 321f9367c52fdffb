// How much time a sweep adds to its trials: to the whole, to a slot between two trials, and to trials that do
// nothing; and the same trials under Optuna and Ray Tune, if a Python that has them is given.
//
//   sweep_speed [--runs 5] [--trials 16] [--parallel 4] [--seconds 2] [--trivial 2000] [--python PATH]
//   [--json]
#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <sstream>

#include "bench/command.h"
#include "bench/measure.h"
#include "tests/scratch_directory.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;

struct Shape {
  int trials = 16;
  int parallel = 4;
  double seconds = 2;
  int trivial = 2000;
};

struct Stamps {
  std::vector<double> begins;  // milliseconds, sorted
  std::vector<double> ends;
};

Stamps read_stamps(const std::string& path) {
  Stamps stamps;
  std::istringstream text(read_file(path, 64 << 20).value_or(""));
  for (long long begin = 0, end = 0; text >> begin >> end;) {
    stamps.begins.push_back(static_cast<double>(begin) / 1e6);
    stamps.ends.push_back(static_cast<double>(end) / 1e6);
  }
  std::ranges::sort(stamps.begins);
  std::ranges::sort(stamps.ends);
  return stamps;
}

// All trials take the same time, so the n-th that ends frees the slot for the one that begins `parallel`
// later.
double idle_time(const Stamps& stamps, int parallel) {
  std::vector<double> gaps;
  const auto slots = static_cast<std::size_t>(parallel);
  for (std::size_t i = 0; i + slots < stamps.begins.size(); ++i)
    gaps.push_back(stamps.begins[i + slots] - stamps.ends[i]);
  return median(gaps);
}

// The sweeps stay until the end: ext4 skips the inodes of removed files for a while, so that the files of the
// next sweep would cost more.
class Sweeps {
 public:
  explicit Sweeps(const fs::path& scratch) : scratch_(scratch) {}

  Command command(const Shape& shape, int trials, const std::vector<std::string>& flags) {
    const std::string directory = scratch_ / fmt::format("sweep{}", ++count_);
    Command command{(own_folder() / "launch").string(),
                    "sweep",
                    "run",
                    "--quiet",
                    "--sweep-dir",
                    directory,
                    "--space",
                    "x=uniform:0:1",
                    "--metric",
                    "loss",
                    "--trials",
                    std::to_string(trials),
                    "--parallel",
                    std::to_string(shape.parallel)};
    command.insert(command.end(), flags.begin(), flags.end());
    return command;
  }
  // Runs trials that take some time, and returns the times of the begins and ends; none if the sweep fails.
  std::optional<Stamps> run(const Shape& shape, std::vector<std::string> flags, const Command& program) {
    const std::string stamps = scratch_ / fmt::format("stamps{}", count_ + 1);
    flags.push_back("--");
    flags.insert(flags.end(), program.begin(), program.end());
    flags.insert(flags.end(), {stamps, fmt::format("{}", shape.seconds), "4", "{x}"});
    const Command sweep = command(shape, shape.trials, flags);
    return runs_well(sweep) ? std::optional(read_stamps(stamps)) : std::nullopt;
  }

 private:
  fs::path scratch_;
  int count_ = 0;
};

struct Figures {
  std::vector<double> overhead, start, idle, idle_torch, idle_python, with_asha, rate, optuna, ray;
};

std::string program(const char* name) {
  return (own_folder() / name).string();
}

double milliseconds_since(std::int64_t begin) {
  return static_cast<double>(now_ns() - begin) / 1e6;
}

void measure_ours(Sweeps& sweeps, const Shape& shape, Figures& figures) {
  const double ideal = shape.seconds * 1e3 * shape.trials / shape.parallel;
  const Command probe{program("sweep_speed_probe")};
  std::int64_t begin = now_ns();
  if (const auto seen = sweeps.run(shape, {}, probe)) {
    figures.overhead.push_back(milliseconds_since(begin) - ideal);
    figures.start.push_back(seen->begins.front() - static_cast<double>(begin) / 1e6);
    figures.idle.push_back(idle_time(*seen, shape.parallel));
  }
  begin = now_ns();
  if (sweeps.run(shape, {"--scheduler", "asha-stop", "--max-steps", "4", "--eta", "2"}, probe))
    figures.with_asha.push_back(milliseconds_since(begin));
  begin = now_ns();
  runs_well(sweeps.command(shape, shape.trivial, {"--", "true", "{x}"}));  // no trial reports, but all finish
  figures.rate.push_back(shape.trivial / (milliseconds_since(begin) / 1e3));
}

// The same between trials that need LibTorch, or Python with torch.
void measure_warm(Sweeps& sweeps, const Shape& shape, Figures& figures) {
  if (const auto seen = sweeps.run(shape, {}, {program("sweep_speed_torch_probe")}))
    figures.idle_torch.push_back(idle_time(*seen, shape.parallel));
  const std::string python = torch_program("python");
  if (python.empty()) return;
  if (const auto seen = sweeps.run(shape, {"--warm"}, {python, program("sweep_speed_probe.py")}))
    figures.idle_python.push_back(idle_time(*seen, shape.parallel));
}

// Milliseconds above the ideal time; nothing if the Python lacks the library.
void measure_peer(const fs::path& scratch, const Shape& shape, const std::string& python,
                  const std::string& peer, std::vector<double>& into) {
  const nlohmann::json figures = figures_of(
      {python, (own_folder() / "sweep_speed_peers.py").string(), peer, std::to_string(shape.trials),
       std::to_string(shape.parallel), fmt::format("{}", shape.seconds)},
      scratch / "figures");
  if (!figures.is_object()) return;
  into.push_back(figures.at("wall_ms").get<double>() - shape.seconds * 1e3 * shape.trials / shape.parallel);
}

int run(int argc, char** argv) {
  CLI::App app("How much time a sweep adds to its trials");
  Shape shape;
  int runs = 5;
  std::string python;
  bool json = false;
  app.add_option("--runs", runs, "Runs of each contender, in turn");
  app.add_option("--trials", shape.trials, "Trials of a sweep");
  app.add_option("--parallel", shape.parallel, "Trials at once");
  app.add_option("--seconds", shape.seconds, "Time of a trial");
  app.add_option("--trivial", shape.trivial, "Trials that do nothing");
  app.add_option("--python", python, "A Python that has optuna, and perhaps ray");
  app.add_flag("--json", json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  const ScratchDirectory scratch;  // on the disk: the journal waits for it
  Sweeps sweeps(scratch.path());
  Figures figures;
  for (int i = 0; i < runs; ++i) {
    measure_ours(sweeps, shape, figures);
    measure_warm(sweeps, shape, figures);
    if (python.empty()) continue;
    measure_peer(scratch / "", shape, python, "optuna", figures.optuna);
    measure_peer(scratch / "", shape, python, "ray", figures.ray);
  }
  Report report(json);
  report.add(fmt::format("{} trials of {} s, {} at once", shape.trials, shape.seconds, shape.parallel),
             "milliseconds above the ideal time",
             {{"launch sweep", figures.overhead, ""},
              {"Optuna, threads", figures.optuna, ""},
              {"Ray Tune", figures.ray, ""}});
  report.add("Start", "milliseconds from the start of launch to the first trial's main()",
             {{"launch sweep", figures.start, ""}});
  report.add("A slot between two trials", "milliseconds, median of a sweep",
             {{"plain program", figures.idle, ""},
              {"LibTorch, warm", figures.idle_torch, ""},
              {"Python with torch, warm", figures.idle_python, ""}});
  report.add("The same trials under asha-stop, eta 2", "milliseconds in all",
             {{"launch sweep", figures.with_asha, ""}});
  report.add(fmt::format("{} trials that do nothing", shape.trivial), "trials a second",
             {{"launch sweep", figures.rate, ""}});
  report.end();
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
