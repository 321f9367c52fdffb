// An all-reduce, and a message there and back, between ranks on this host, over each backend and in a plain
// MPI program. There are two floors: each rank copies its tensor into shared memory and back without waiting
// for another rank; and torch's operator over a backend that does nothing.
//
// Contenders are measured in turn, some calls at a time; a value is the mean of these calls on rank 0. The
// backends' ranks are one job of `launch`; plain MPI's ranks are another, which sleeps until its turn.
//
//   collectives [--ranks 2,4] [--rounds 9] [--least 4] [--most 268435456] [--backends gloo,shm,mpi]
//   [--no-plain] [--json]
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include "bench/collectives/rank.h"
#include "bench/command.h"
#include "bench/measure.h"
#include "common/base/file.h"
#include "tests/scratch_directory.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kLimitMilliseconds = 3'600'000;

// The median of `over` divided by the median of `under`.
struct Goal {
  const char* what;
  const char* over;
  const char* under;
  std::size_t from_bytes, to_bytes;
  bool is_least;
  double limit;
};
constexpr Goal kGoals[] = {
    {"speed of mpi over that of plain MPI", kPlain, "mpi", std::size_t{64} << 10, SIZE_MAX, true, 0.9},
    {"speed of shm over that of gloo", "gloo", "shm", std::size_t{64} << 20, std::size_t{64} << 20, true, 3},
    {"time of shm over that of gloo", "shm", "gloo", 4096, 4096, false, 0.5},
};

const Series* row_of(const std::vector<Series>& rows, const char* contender) {
  const auto found = std::ranges::find(rows, contender, &Series::contender);
  return found == rows.end() || found->values.empty() ? nullptr : &*found;
}

std::vector<Series> rows_of(const nlohmann::json& table) {
  std::vector<Series> rows;
  for (const auto& each : table["rows"])
    rows.push_back({each["contender"].get<std::string>(), each["values"].get<std::vector<double>>(),
                    each["note"].get<std::string>()});
  return rows;
}

nlohmann::json goals_of(const nlohmann::json& tables) {
  nlohmann::json goals = nlohmann::json::array();
  for (const Goal& goal : kGoals) {
    for (const auto& table : tables) {
      const auto bytes = table["bytes"].get<std::size_t>();
      if (!table["all_reduce"].get<bool>() || bytes < goal.from_bytes || bytes > goal.to_bytes) continue;
      const auto rows = rows_of(table);
      const Series* const over = row_of(rows, goal.over);
      const Series* const under = row_of(rows, goal.under);
      if (over == nullptr || under == nullptr) continue;
      const double ratio = median(over->values) / median(under->values);
      const Interval interval = ratio_interval(over->values, under->values);
      goals.push_back({{"goal", goal.what},
                       {"case", table["title"]},
                       {"ratio", ratio},
                       {"low", interval.low},
                       {"high", interval.high},
                       {"wanted", fmt::format("{} {}", goal.is_least ? ">=" : "<=", goal.limit)},
                       {"met", goal.is_least ? ratio >= goal.limit : ratio <= goal.limit}});
    }
  }
  return goals;
}

void print_goals(const nlohmann::json& goals) {
  fmt::print("goals\n");
  for (const auto& each : goals)
    fmt::print("  {:<38}{:<34}{:>7.2f} ({:.2f} to {:.2f}), {}: {}\n", each["goal"].get<std::string>(),
               each["case"].get<std::string>(), each["ratio"].get<double>(), each["low"].get<double>(),
               each["high"].get<double>(), each["wanted"].get<std::string>(),
               each["met"].get<bool>() ? "met" : "missed");
}

pid_t start(const Command& command, const std::string& output) {
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) become(command, {}, output);
  return pid;
}

// Runs a job of this number of ranks, and returns its tables.
nlohmann::json measure(const Settings& settings, int ranks, const std::string& directory) {
  const fs::path self = fs::read_symlink("/proc/self/exe");
  const bool has_mpi = std::ranges::find(settings.backends, "mpi") != settings.backends.end();
  const Command launch{self.parent_path() / "launch",
                       "--gpus-per-node",
                       std::to_string(ranks),
                       "--device",
                       "cpu",
                       "--max-restarts",
                       "0",
                       "--log-dir",
                       directory + "/logs",
                       "--mpi"};
  Command backends = launch;
  backends.insert(
      backends.end(),
      {has_mpi ? "pmix" : "none", self, "--rank-in", directory, "--least",
       std::to_string(settings.least_bytes), "--most", std::to_string(settings.most_bytes), "--rounds",
       std::to_string(settings.rounds), "--backends", fmt::format("{}", fmt::join(settings.backends, ","))});
  if (!settings.plain) backends.emplace_back("--no-plain");
  Command plain = launch;
  plain.insert(plain.end(), {"pmix", PLAIN_PROGRAM, directory, std::to_string(settings.most_bytes)});
  for (int rank = 0; rank < ranks; ++rank) mkfifo(fmt::format("{}/orders.{}", directory, rank).c_str(), 0600);
  mkfifo((directory + "/answers").c_str(), 0600);
  std::vector<pid_t> pids{start(backends, directory + "/backends.out")};
  if (settings.plain) pids.push_back(start(plain, directory + "/plain.out"));
  const auto status = status_within(pids.front(), kLimitMilliseconds);
  // A rank that failed before plain MPI's turn has left plain MPI waiting.
  if (settings.plain) status_within(pids.back(), status == 0 ? kLimitMilliseconds : 0);
  auto report = read_file(directory + "/" + kReport, 1 << 26);
  CHECK(status == 0 && report, "the ranks did not report: {}",
        read_file(directory + "/backends.out", 1 << 20).value_or(""));
  return nlohmann::json::parse(*report);
}

int run(int argc, char** argv) {
  Settings settings;
  if (*PLAIN_PROGRAM == '\0') std::erase(settings.backends, "mpi");  // without Open MPI, neither was built
  bool no_plain = false;
  bool json = false;
  CLI::App app("Collectives of ranks on one host");
  app.add_option("--ranks", settings.ranks, "Numbers of ranks")->delimiter(',')->check(CLI::Range(2, 64));
  app.add_option("--least", settings.least_bytes, "The smallest tensor, in bytes");
  app.add_option("--most", settings.most_bytes, "The largest tensor, in bytes");
  app.add_option("--rounds", settings.rounds, "Turns of each contender")->check(CLI::Range(1, 1000));
  app.add_option("--backends", settings.backends, "Contenders; ratios are to the first one")->delimiter(',');
  app.add_flag("--no-plain", no_plain, "Leave out plain MPI");
  app.add_flag("--json", json, "Print JSON");
  app.add_option("--rank-in", settings.directory)->group("");  // only for our own ranks
  CLI11_PARSE(app, argc, argv);
  settings.plain = !no_plain && *PLAIN_PROGRAM != '\0';
  if (!settings.directory.empty()) {
    measure_as_rank(settings);
    return 0;
  }
  // The plain program yields as the backend does: polling ranks would waste the cores of other work.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);
  nlohmann::json tables = nlohmann::json::array();
  for (const int ranks : settings.ranks) {
    const ScratchDirectory scratch;
    for (auto& table : measure(settings, ranks, scratch.path())) {
      if (!json)
        print_table(table["title"].get<std::string>(), table["unit"].get<std::string>(), rows_of(table));
      tables.push_back(std::move(table));
    }
    std::fflush(stdout);
  }
  const nlohmann::json goals = goals_of(tables);
  if (json)
    fmt::print("{}\n", nlohmann::json{{"tables", tables}, {"goals", goals}}.dump(2));
  else
    print_goals(goals);
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
