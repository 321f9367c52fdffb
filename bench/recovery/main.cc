// How long a job stops when it loses a rank: Muster, compared with bare posix_spawn and torchrun, in turn, in
// one run.
//
//   recovery [--of plain,torch] [--ranks 4,16] [--runs 9] [--torchrun PATH] [--json]
#include <CLI/CLI.hpp>
#include <cstdlib>

#include "bench/command.h"
#include "bench/recovery/plain.h"
#include "bench/recovery/torch.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;

int run(int argc, char** argv) {
  const fs::path self = fs::read_symlink("/proc/self/exe");
  if (argc == 5 && std::string_view(argv[1]) == "--bare")
    return run_bare(std::atoi(argv[2]), argv[3], argv[4]);
  CLI::App app("A rank's death to the next attempt, compared with posix_spawn and torchrun");
  std::vector<int> ranks = {4, 16};
  int runs = 9;
  bool json = false;
  std::vector<std::string> kinds = {"plain", "torch"};
  std::string torchrun = torch_program("torchrun");
  app.add_option("--of", kinds, "Kinds of ranks")->delimiter(',')->check(CLI::IsMember({"plain", "torch"}));
  app.add_option("--ranks", ranks, "Numbers of ranks, even")->delimiter(',');
  app.add_option("--runs", runs, "Counted runs of each contender")->check(CLI::Range(1, 1000));
  app.add_option("--torchrun", torchrun, "The torchrun program; skipped if it does not exist");
  app.add_flag("--json", json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  if (!fs::exists(torchrun)) torchrun.clear();

  const fs::path bin = self.parent_path();
  const Programs programs{bin, self.string(), torchrun, (bin / "recovery_torch_probe.py").string()};
  Report report(json);
  for (const std::string& kind : kinds) {
    if (kind == "torch" && !fs::exists(bin / "recovery_torch_probe")) continue;  // built without LibTorch
    for (const int count : ranks) {
      for (const Table& table : (kind == "plain" ? compare_plain : compare_torch)(programs, count, runs)) {
        report.add(table.title, table.unit, table.rows);
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
