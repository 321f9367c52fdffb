// Muster, bare posix_spawn, MPICH's mpiexec.hydra, Open MPI's mpirun and torchrun start plain ranks, in turn,
// in one run. Three tables for each number of ranks: the time from starting the launcher until its last rank
// is in main(), the time from there until the launcher has ended (the ranks end at once), and the processor
// time of the launcher and of all processes that it waited for. A launcher that does not end in 20 s is
// stopped; after three such tries it is left out, with a note.
//
//   launch_latency [--ranks 1,4,16,64] [--runs 21] [--torchrun PATH] [--json]
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/command.h"
#include "bench/measure.h"
#include "common/base/file.h"
#include "tests/scratch_directory.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kLimitMilliseconds = 20'000;
constexpr int kMaxHungTries = 3;

// Milliseconds.
struct Times {
  double start = 0;      // from before the spawn to the last rank's stamp
  double end = 0;        // from the last rank's stamp until the launcher has ended
  double processor = 0;  // of the launcher and of the processes that it waited for
};

struct Launch {
  std::optional<Times> times;  // if all ranks ran
  bool hung = false;           // had to be stopped, even after all ranks ran
  bool failed = false;
};

// The time at which the last rank was in main; empty unless all ranks were.
std::optional<std::int64_t> last_stamp(const std::string& stamps, int ranks) {
  const std::string text = read_file(stamps, 1 << 20).value_or("");
  std::int64_t last = 0;
  int count = 0;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1, ++count) {
    last = std::max<std::int64_t>(last, std::strtoll(text.c_str() + at, nullptr, 10));
  }
  if (count != ranks) return std::nullopt;
  return last;
}

double milliseconds(const rusage& usage) {
  const auto of = [](const timeval& time) {
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

Launch measure(const std::vector<Command>& commands, int ranks, const std::string& stamps) {
  fs::remove(stamps);
  const std::int64_t begin = now_ns();
  std::vector<pid_t> pids;
  for (const Command& command : commands) pids.push_back(spawn(command));
  Launch launch;
  double processor = 0;
  for (const pid_t pid : pids) {
    if (pid > 0 && !ends_within(pid, kLimitMilliseconds)) {
      launch.hung = true;
      kill(pid, SIGTERM);
      if (!ends_within(pid, 2000)) kill(pid, SIGKILL);
    }
    int status = 0;
    rusage usage{};
    if (pid < 0 || wait4(pid, &status, 0, &usage) != pid || status != 0) launch.failed = !launch.hung;
    processor += milliseconds(usage);
  }
  const std::int64_t end = now_ns();
  const auto last = last_stamp(stamps, ranks);
  if (last)
    launch.times =
        Times{static_cast<double>(*last - begin) / 1e6, static_cast<double>(end - *last) / 1e6, processor};
  return launch;
}

struct Contender {
  std::string name;
  std::function<std::vector<Command>(int ranks)> commands;
  int one_run_of;  // slow contenders run only in every nth round
  int least_ranks = 1;
};

std::vector<Contender> contenders(const fs::path& bin, const std::string& probe, const std::string& stamps,
                                  const std::string& log_dir, const std::string& torchrun) {
  const std::string launch = (bin / "launch").string();
  std::vector<Contender> all;
  all.push_back({"posix_spawn",
                 [=](int n) { return std::vector<Command>(static_cast<std::size_t>(n), {probe, stamps}); },
                 1});
  all.push_back({"launch",
                 [=](int n) {
                   return std::vector<Command>{{launch, "--gpus-per-node", std::to_string(n), "--log-dir",
                                                log_dir, "--quiet", probe, stamps}};
                 },
                 1});
  all.push_back({"launch, 2 nodes",
                 [=](int n) {
                   return std::vector<Command>{{launch, "--nodes", "2", "--gpus-per-node",
                                                std::to_string(n / 2), "--log-dir", log_dir, "--quiet", probe,
                                                stamps}};
                 },
                 1, 2});
  all.push_back(
      {"mpiexec.hydra",
       [=](int n) { return std::vector<Command>{{"mpiexec.hydra", "-n", std::to_string(n), probe, stamps}}; },
       1});
  all.push_back({"mpirun",
                 [=](int n) {
                   return std::vector<Command>{{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe",
                                                "-n", std::to_string(n), probe, stamps}};
                 },
                 3});
  if (!torchrun.empty()) {
    all.push_back({"torchrun",
                   [=](int n) {
                     return std::vector<Command>{
                         {torchrun, "--nproc-per-node", std::to_string(n), "--no-python", probe, stamps}};
                   },
                   7});
  }
  return all;
}

// The results of a contender's runs.
struct Tries {
  int all = 0;
  int hung = 0;
  std::vector<Times> times;
  std::string note;
};

std::vector<Tries> compare(const std::vector<Contender>& all, int ranks, int runs,
                           const std::string& stamps) {
  std::vector<Tries> tries(all.size());
  for (int run = -1; run < runs; ++run) {  // the first round only warms the page cache
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((run >= 0 && run % all[i].one_run_of != 0) || tries[i].hung == kMaxHungTries) continue;
      if (ranks < all[i].least_ranks) continue;
      const Launch launch = measure(all[i].commands(ranks), ranks, stamps);
      ++tries[i].all;
      if (launch.hung) ++tries[i].hung;
      if (launch.failed || !launch.times) tries[i].note = "not all ranks ran";
      if (run >= 0 && launch.times && !launch.failed) tries[i].times.push_back(*launch.times);
    }
  }
  for (Tries& each : tries) {
    if (each.hung > 0) each.note = fmt::format("{} of {} tries did not end", each.hung, each.all);
  }
  return tries;
}

void report_tables(Report& report, const std::vector<Contender>& all, int ranks,
                   const std::vector<Tries>& tries) {
  struct Table {
    const char* title;
    const char* unit;
    double Times::* value;
  };
  constexpr Table kTables[] = {
      {"start", "milliseconds from the start of the launcher to the last rank's main()", &Times::start},
      {"end", "milliseconds from the last rank's main(), which ends at once, to the launcher's end",
       &Times::end},
      {"processor time", "milliseconds of the launcher and of the processes that it waited for",
       &Times::processor}};
  for (const Table& table : kTables) {
    std::vector<Series> rows;
    for (std::size_t i = 0; i < all.size(); ++i) {
      rows.push_back({all[i].name, {}, tries[i].note});
      for (const Times& times : tries[i].times) rows.back().values.push_back(times.*table.value);
    }
    report.add(fmt::format("{} ranks: {}", ranks, table.title), table.unit, rows);
  }
}

int run(int argc, char** argv) {
  CLI::App app(
      "Launcher start to the last rank's main(), compared with posix_spawn, mpiexec.hydra, mpirun and torchrun");
  std::vector<int> ranks = {1, 4, 16, 64};
  int runs = 21;
  bool json = false;
  std::string torchrun = torch_program("torchrun");
  app.add_option("--ranks", ranks, "Numbers of ranks")->delimiter(',');
  app.add_option("--runs", runs, "Counted runs of each contender")->check(CLI::Range(1, 1000));
  app.add_option("--torchrun", torchrun, "The torchrun program; skipped if it does not exist");
  app.add_flag("--json", json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  if (!fs::exists(torchrun)) torchrun.clear();

  keep_scratch_in_memory();
  const ScratchDirectory scratch;
  const fs::path bin = own_folder();
  const std::string stamps = scratch / "stamps";
  const auto all =
      contenders(bin, (bin / "launch_latency_probe").string(), stamps, scratch / "logs", torchrun);
  Report report(json);
  for (const int count : ranks) {
    report_tables(report, all, count, compare(all, count, runs, stamps));
  }
  report.end();
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
