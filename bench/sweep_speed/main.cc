// How much time a sweep adds to its trials: to the whole, to a slot between two trials, and to trials that do
// nothing; and the same trials under Optuna and Ray Tune, if a Python that has them is given.
//
//   sweep_speed [--runs 5] [--trials 16] [--parallel 4] [--seconds 2] [--trivial 2000] [--python PATH]
//   [--json]
#include <CLI/CLI.hpp>
#include <filesystem>
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

Command sweep(const fs::path& scratch, int trials, int parallel, const std::vector<std::string>& flags) {
  fs::remove_all(scratch / "sweep");
  fs::remove(scratch / "stamps");
  Command command{(own_folder() / "launch").string(),
                  "sweep",
                  "run",
                  "--quiet",
                  "--sweep-dir",
                  (scratch / "sweep").string(),
                  "--space",
                  "x=uniform:0:1",
                  "--metric",
                  "loss",
                  "--trials",
                  std::to_string(trials),
                  "--parallel",
                  std::to_string(parallel)};
  command.insert(command.end(), flags.begin(), flags.end());
  return command;
}

struct Figures {
  std::vector<double> overhead, start, idle, with_asha, rate, optuna, ray;
};

void measure_ours(const fs::path& scratch, const Shape& shape, Figures& figures) {
  const double ideal = shape.seconds * 1e3 * shape.trials / shape.parallel;
  const std::string probe = (own_folder() / "sweep_speed_probe").string();
  const std::string stamps = scratch / "stamps";
  const std::string seconds = fmt::format("{}", shape.seconds);
  Command plain = sweep(scratch, shape.trials, shape.parallel, {});
  plain.insert(plain.end(), {"--", probe, stamps, seconds, "4", "{x}"});
  std::int64_t begin = now_ns();
  if (runs_well(plain)) {
    figures.overhead.push_back(static_cast<double>(now_ns() - begin) / 1e6 - ideal);
    const Stamps seen = read_stamps(stamps);
    figures.start.push_back(seen.begins.front() - static_cast<double>(begin) / 1e6);
    figures.idle.push_back(idle_time(seen, shape.parallel));
  }
  Command asha = sweep(scratch, shape.trials, shape.parallel,
                       {"--scheduler", "asha-stop", "--max-steps", "4", "--eta", "2"});
  asha.insert(asha.end(), {"--", probe, stamps, seconds, "4", "{x}"});
  begin = now_ns();
  if (runs_well(asha)) figures.with_asha.push_back(static_cast<double>(now_ns() - begin) / 1e6);
  Command trivial = sweep(scratch, shape.trivial, shape.parallel, {});
  trivial.insert(trivial.end(), {"--", "true", "{x}"});
  begin = now_ns();
  runs_well(trivial);  // no trial reports, but all finish
  figures.rate.push_back(shape.trivial / (static_cast<double>(now_ns() - begin) / 1e9));
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
  Figures figures;
  for (int i = 0; i < runs; ++i) {
    measure_ours(scratch / "", shape, figures);
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
             {{"launch sweep", figures.idle, ""}});
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
