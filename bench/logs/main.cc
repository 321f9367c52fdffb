// Lines per second from ranks that print as fast as they can into one merged output with a prefix on each
// line. Compares Muster with a bare multiplexer (multiplexer.cc), plain cat (no prefix) and Open MPI's
// mpirun, in turn, in one run. The output goes to a file in memory; afterwards the benchmark checks that no
// line is lost or damaged.
//
//   logs [--ranks 8] [--lines 200000] [--runs 3] [--json]
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sys/resource.h>
#include <sys/wait.h>

#include "bench/command.h"
#include "bench/measure.h"
#include "common/base/file.h"
#include "tests/scratch_directory.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;

struct Setting {
  int ranks = 8;
  int lines = 200'000;
  fs::path bin;
  std::string scratch;
  std::string output() const { return scratch + "/output"; }
  std::string cpu_file() const { return scratch + "/cpu"; }
};

struct Contender {
  std::string name;
  Command command;  // run by a shell
};

std::vector<Contender> contenders(const Setting& setting, const std::string& buffering) {
  const std::string writer = fmt::format("{} {} {} {}", (setting.bin / "logs_writer").string(), setting.lines,
                                         buffering, setting.cpu_file());
  const auto shell = [&setting](const std::string& script) {
    return Command{"sh", "-c", fmt::format("{} > {} 2>&1", script, setting.output())};
  };
  std::string all;
  for (int rank = 0; rank < setting.ranks; ++rank) all += fmt::format("{} {} & ", writer, rank);
  return {{"bare multiplexer", shell(fmt::format("{} {} {}", (setting.bin / "logs_multiplexer").string(),
                                                 setting.ranks, writer))},
          {"cat", shell(fmt::format("({} wait) | cat", all))},
          {"launch",
           shell(fmt::format("{} --gpus-per-node {} --log-dir {}/logs --quiet {}",
                             (setting.bin / "launch").string(), setting.ranks, setting.scratch, writer))},
          {"mpirun --tag-output",
           shell(fmt::format("mpirun.openmpi --allow-run-as-root --oversubscribe --tag-output -n {} {}",
                             setting.ranks, writer))}};
}

// The number of lines that arrived whole.
struct Check {
  int whole = 0;
  int damaged = 0;
};

Check check(const Setting& setting) {
  std::vector<std::vector<bool>> seen(static_cast<std::size_t>(setting.ranks));
  for (auto& each : seen) each.resize(static_cast<std::size_t>(setting.lines));
  Check result;
  std::ifstream file(setting.output());
  for (std::string line; std::getline(file, line);) {
    const std::size_t mark = line.find('#');
    int rank = -1;
    int number = -1;
    int loss = -1;
    int end = 0;
    const bool read = mark != std::string::npos && std::sscanf(line.c_str() + mark, "#%d %d loss=0.%d %n",
                                                               &rank, &number, &loss, &end) == 3;
    const bool in_range = read && rank >= 0 && rank < setting.ranks && number >= 0 && number < setting.lines;
    const std::string rest = in_range ? line.substr(mark + static_cast<std::size_t>(end)) : "";
    if (!in_range || loss != number || rest != std::string(static_cast<std::size_t>(25 + number % 32), 'x')) {
      ++result.damaged;
    } else if (auto bit = seen[static_cast<std::size_t>(rank)][static_cast<std::size_t>(number)]; !bit) {
      bit = true;
      ++result.whole;
    }
  }
  return result;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

struct Measured {
  double lines_per_second = 0;
  double cpu_seconds = 0;  // without the ranks' own
  std::string wrong;
};

Measured measure(const Setting& setting, const Command& command) {
  for (const std::string& left : {setting.output(), setting.cpu_file()}) fs::remove(left);
  fs::remove_all(setting.scratch + "/logs");
  const std::int64_t begin = now_ns();
  const pid_t pid = spawn(command);
  int status = 0;
  rusage used{};
  CHECK(wait4(pid, &status, 0, &used) == pid, "cannot execute {}", command[0]);
  const double elapsed = static_cast<double>(now_ns() - begin) / 1e9;
  Measured measured;
  measured.cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  std::ifstream own(setting.cpu_file());
  for (double each = 0; own >> each;) measured.cpu_seconds -= each;
  const Check checked = check(setting);
  const int expected = setting.ranks * setting.lines;
  measured.lines_per_second = checked.whole / elapsed;
  if (checked.whole != expected || checked.damaged > 0)
    measured.wrong = fmt::format("{} of {} lines are missing, {} damaged", expected - checked.whole, expected,
                                 checked.damaged);
  return measured;
}

struct Table {
  std::string title;
  std::string unit;
  std::vector<Series> rows;
};

std::vector<Table> compare(const Setting& setting, const std::string& buffering, int runs) {
  const std::vector<Contender> all = contenders(setting, buffering);
  const std::string title =
      fmt::format("{} ranks, {} lines each, {}", setting.ranks, setting.lines,
                  buffering == "lines" ? "flushed at each line" : "flushed every 64 KiB");
  std::vector<Table> tables = {{title, "thousand lines per second", {}},
                               {title + ", CPU", "CPU seconds, without the ranks' own", {}}};
  for (Table& table : tables) {
    for (const Contender& contender : all) table.rows.push_back({contender.name, {}, {}});
  }
  for (int run = 0; run < runs; ++run) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Measured measured = measure(setting, all[i].command);
      tables[0].rows[i].values.push_back(measured.lines_per_second / 1000);
      tables[1].rows[i].values.push_back(measured.cpu_seconds);
      if (!measured.wrong.empty()) tables[0].rows[i].note = measured.wrong;
    }
  }
  return tables;
}

int run(int argc, char** argv) {
  CLI::App app("Lines per second with a prefix, compared with cat and mpirun");
  Setting setting;
  int runs = 3;
  bool json = false;
  app.add_option("--ranks", setting.ranks, "Ranks that print")->check(CLI::Range(1, 4096));
  app.add_option("--lines", setting.lines, "Lines per rank")->check(CLI::Range(1, 100'000'000));
  app.add_option("--runs", runs, "Runs of each contender")->check(CLI::Range(1, 1000));
  app.add_flag("--json", json, "Print JSON");
  CLI11_PARSE(app, argc, argv);

  keep_scratch_in_memory();
  const ScratchDirectory scratch;
  setting.scratch = scratch.path();
  setting.bin = own_folder();
  Report report(json);
  for (const char* buffering : {"buffered", "lines"}) {
    for (const Table& table : compare(setting, buffering, runs)) {
      report.add(table.title, table.unit, table.rows);
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
