#include "bench/recovery/plain.h"

#include <csignal>
#include <sys/wait.h>

#include "bench/command.h"
#include "tests/scratch_directory.h"

namespace muster::bench {

namespace {

namespace fs = std::filesystem;

Command torchrun(const Programs& programs, int ranks, std::vector<std::string> nodes, const Command& probe) {
  // torchrun looks for dead ranks ten times a second, the highest rate that does not keep a core busy.
  Command command = {programs.torchrun,
                     "--nproc-per-node",
                     std::to_string(ranks),
                     "--max-restarts",
                     "1",
                     "--monitor-interval",
                     "0.1",
                     "--no-python"};
  command.insert(command.end(), nodes.begin(), nodes.end());
  command.insert(command.end(), probe.begin(), probe.end());
  return command;
}

std::vector<Contender> contenders(const Programs& programs, int ranks, const fs::path& scratch) {
  const Command probe = {(programs.bin / "recovery_probe").string(), (scratch / "stamps").string()};
  const auto launch = [&](int nodes) {
    return Command{(programs.bin / "launch").string(),
                   "--nodes",
                   std::to_string(nodes),
                   "--gpus-per-node",
                   std::to_string(ranks / nodes),
                   "--log-dir",
                   (scratch / "logs").string(),
                   "--quiet",
                   probe[0],
                   probe[1]};
  };
  std::vector<Contender> all = {
      {"posix_spawn", {{programs.self, "--bare", std::to_string(ranks), probe[0], probe[1]}}},
      {"launch", {launch(1)}},
      {"launch, 2 nodes", {launch(2)}}};
  if (programs.torchrun.empty()) return all;
  const std::vector<std::string> two = {"--nnodes",       "2", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                                        "127.0.0.1:29871"};
  all.push_back({"torchrun", {torchrun(programs, ranks, {}, probe)}});
  all.push_back({"torchrun, 2 nodes",
                 {torchrun(programs, ranks / 2, two, probe), torchrun(programs, ranks / 2, two, probe)},
                 3});
  return all;
}

}  // namespace

std::vector<Table> compare_plain(const Programs& programs, int ranks, int runs) {
  const ScratchDirectory scratch;
  const std::vector<Column> columns = {
      {"plain ranks, recovery: a rank's death to the last of the next attempt in main()", "milliseconds",
       [](const Times& times) { return times.recovered; }},
      {"plain ranks, detection: a rank's death to the first TERM that another gets", "milliseconds",
       [](const Times& times) { return times.acted; }},
      {"plain ranks, stopping: the first TERM to the end of the last rank", "milliseconds",
       [](const Times& times) { return times.gone; }}};
  auto tables =
      compare(contenders(programs, ranks, scratch.path()), columns, ranks, runs, scratch / "stamps");
  return tables;
}

int run_bare(int ranks, const std::string& probe, const std::string& stamps) {
  for (const bool first : {true, false}) {
    std::vector<pid_t> pids;
    for (int rank = 0; rank < ranks; ++rank) pids.push_back(spawn({probe, stamps}));
    const pid_t dead = waitpid(-1, nullptr, 0);
    for (const pid_t pid : pids) {
      if (first && pid != dead) kill(pid, SIGTERM);
    }
    while (waitpid(-1, nullptr, 0) > 0) {
    }
  }
  return 0;
}

}  // namespace muster::bench
