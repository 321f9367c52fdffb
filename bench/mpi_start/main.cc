// The time from starting a launcher until MPI_Init has returned in the last rank of an MPI program, and until
// the launcher has ended. Compares `launch`, with agents as four nodes on this host, with Open MPI's mpirun
// and MPICH's mpiexec.hydra, each with a program of its library, all in turn in one run.
//
//   mpi_start [--ranks 4,16] [--runs 15] [--json]
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <unistd.h>

#include "bench/command.h"
#include "bench/measure.h"
#include "common/base/file.h"
#include "tests/scratch_directory.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kLimitMilliseconds = 30'000;
constexpr int kNodes = 4;
constexpr const char* kUnit = "milliseconds from the start of the launcher";

struct Contender {
  std::string name;
  std::string program;  // empty: not built
  Command launcher;     // the words before the program
};

struct Milliseconds {
  double ready = 0;  // MPI_Init had returned in the last rank
  double ended = 0;  // the launcher had ended
};

// Empty unless all ranks were in one world.
std::optional<std::int64_t> last_stamp(const std::string& stamps, int ranks) {
  std::istringstream lines(read_file(stamps, 1 << 20).value_or(""));
  std::int64_t last = 0;
  int count = 0;
  int size = 0;
  for (std::int64_t stamp = 0; lines >> stamp >> size; ++count) {
    if (size != ranks) return std::nullopt;
    last = std::max(last, stamp);
  }
  return count == ranks ? std::optional(last) : std::nullopt;
}

std::optional<Milliseconds> measure(const Contender& contender, int ranks, const std::string& stamps) {
  Command command = contender.launcher;
  command.insert(command.end(), {contender.program, stamps});
  fs::remove(stamps);
  const std::int64_t begin = now_ns();
  const pid_t pid = spawn(command);
  const auto status = pid > 0 ? status_within(pid, kLimitMilliseconds) : std::nullopt;
  const std::int64_t end = now_ns();
  const auto last = last_stamp(stamps, ranks);
  if (status != 0 || !last) return std::nullopt;
  return Milliseconds{static_cast<double>(*last - begin) / 1e6, static_cast<double>(end - begin) / 1e6};
}

// The contenders for one MPI library; the first is ours.
std::vector<Contender> contenders(bool openmpi, int ranks, const std::string& directory) {
  const std::string launch = own_folder() / "launch";
  const std::string program = openmpi ? OPENMPI_PROGRAM : MPICH_PROGRAM;
  const std::string count = std::to_string(ranks);
  const auto ours = [&](int nodes) {
    return Command{launch,
                   "--mpi",
                   openmpi ? "pmix" : "pmi",
                   "--nodes",
                   std::to_string(nodes),
                   "--gpus-per-node",
                   std::to_string(ranks / nodes),
                   "--device",
                   "cpu",
                   "--log-dir",
                   directory + "/logs",
                   "--quiet"};
  };
  std::vector<Contender> all{{fmt::format("launch, {} nodes", kNodes), program, ours(kNodes)},
                             {"launch, 1 node", program, ours(1)}};
  if (openmpi)
    all.push_back(
        {"mpirun", program, {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", count}});
  else
    all.push_back({"mpiexec.hydra", program, {"mpiexec.hydra", "-n", count}});
  return all;
}

struct Rows {
  std::vector<Series> ready, ended;
};

// Measures all contenders, in turn.
Rows compare(const std::vector<Contender>& all, int ranks, int runs, const std::string& stamps) {
  Rows rows;
  for (const Contender& each : all) {
    rows.ready.push_back({each.name, {}, each.program.empty() ? "its library is not installed" : ""});
    rows.ended.push_back(rows.ready.back());
  }
  for (int run = -1; run < runs; ++run) {  // the first round only warms the page cache
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].program.empty()) continue;
      const auto taken = measure(all[i], ranks, stamps);
      if (!taken) rows.ready[i].note = rows.ended[i].note = "some runs failed";
      if (!taken || run < 0) continue;
      rows.ready[i].values.push_back(taken->ready);
      rows.ended[i].values.push_back(taken->ended);
    }
  }
  return rows;
}

int run(int argc, char** argv) {
  CLI::App app("Launcher start to MPI_Init, compared with mpirun and mpiexec.hydra");
  std::vector<int> ranks = {4, 16};
  int runs = 15;
  bool json = false;
  app.add_option("--ranks", ranks, fmt::format("Numbers of ranks, multiples of {}", kNodes))->delimiter(',');
  app.add_option("--runs", runs, "Counted runs of each contender")->check(CLI::Range(1, 1000));
  app.add_flag("--json", json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  keep_scratch_in_memory();
  const ScratchDirectory scratch;
  Report report(json);
  for (const int count : ranks) {
    CHECK(count % kNodes == 0, "--ranks {}: not a multiple of {} nodes", count, kNodes);
    std::vector<Contender> all = contenders(/*openmpi=*/true, count, scratch.path());
    const std::size_t of_openmpi = all.size();
    for (Contender& each : contenders(/*openmpi=*/false, count, scratch.path()))
      all.push_back(std::move(each));
    const Rows rows = compare(all, count, runs, scratch / "stamps");
    for (const bool openmpi : {true, false}) {
      for (const bool ready : {true, false}) {
        const auto& both = ready ? rows.ready : rows.ended;
        const auto middle = both.begin() + static_cast<std::ptrdiff_t>(of_openmpi);
        const std::vector<Series> some(openmpi ? both.begin() : middle, openmpi ? middle : both.end());
        const std::string title =
            fmt::format("{} ranks of {}, until {}", count, openmpi ? "Open MPI" : "MPICH",
                        ready ? "MPI_Init has returned in the last" : "the launcher has ended");
        report.add(title, kUnit, some);
      }
    }
  }
  report.end();
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
