// Launches of many ranks that exit at once, one launch after the other: no launch may hang, and every exit
// code must be right. In every third launch one rank fails. Exits with 1 if anything was wrong.
//
//   many_launches [--launches 50] [--ranks 256] [--limit SECONDS] [--json]
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sys/wait.h>

#include "bench/command.h"
#include "bench/measure.h"
#include "tests/scratch_directory.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;

struct Counts {
  int right = 0;
  int wrong = 0;
  int hung = 0;
};

// Returns the exit code, 128 + the signal, or -1 if the launch had to be killed.
int run_one(const Command& command, int limit_seconds) {
  const pid_t pid = spawn(command);
  CHECK(pid > 0, "cannot execute {}", command[0]);
  const bool hung = !ends_within(pid, limit_seconds * 1000);
  if (hung) kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  if (hung) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run(int argc, char** argv) {
  CLI::App app("Launches of many ranks that exit at once: no launch hangs, every exit code is right");
  int launches = 50;
  int ranks = 256;
  int limit_seconds = 60;
  bool json = false;
  app.add_option("--launches", launches, "How many")->check(CLI::Range(1, 1'000'000));
  app.add_option("--ranks", ranks, "Ranks per launch")->check(CLI::Range(1, 4096));
  app.add_option("--limit", limit_seconds, "Seconds after which a launch counts as hung");
  app.add_flag("--json", json, "Print JSON");
  CLI11_PARSE(app, argc, argv);

  const ScratchDirectory scratch;
  const fs::path bin = own_folder();
  Counts counts;
  std::vector<Series> rows = {{"launch", {}, {}}};
  for (int i = 0; i < launches; ++i) {
    const int expected = i % 3 == 2 ? 3 + i % 60 : 0;
    const std::int64_t begin = now_ns();
    const int code =
        run_one({(bin / "launch").string(), "--gpus-per-node", std::to_string(ranks), "--max-restarts", "0",
                 "--log-dir", scratch / "logs", "--quiet", (bin / "many_launches_leave").string(),
                 std::to_string(expected), std::to_string(i % ranks)},
                limit_seconds);
    rows[0].values.push_back(static_cast<double>(now_ns() - begin) / 1e6);
    ++(code == expected ? counts.right : code < 0 ? counts.hung : counts.wrong);
    if (code != expected) fmt::print(stderr, "launch {}: {} instead of {}\n", i, code, expected);
    fs::remove_all(scratch / "logs");
  }

  const std::string title =
      fmt::format("{} launches of {} ranks that exit at once: {} right, {} wrong, {} hung", launches, ranks,
                  counts.right, counts.wrong, counts.hung);
  const std::string unit = "milliseconds from the start of the launcher to its end";
  if (json) {
    fmt::print("{}\n", to_json(title, unit, rows).dump(2));
  } else {
    print_table(title, unit, rows);
  }
  return counts.right == launches ? 0 : 1;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
