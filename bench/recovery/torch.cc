#include "bench/recovery/torch.h"

#include <cstdlib>

#include "tests/scratch_directory.h"

namespace muster::bench {

namespace {

namespace fs = std::filesystem;

std::vector<Contender> torch_contenders(const Programs& programs, int ranks, const fs::path& scratch) {
  const std::string stamps = (scratch / "stamps").string();
  const auto launch = [&](const std::string& warm, const Command& program) {
    Command command = {(programs.bin / "launch").string(),
                       warm,
                       "--device",
                       "cpu",
                       "--gpus-per-node",
                       std::to_string(ranks),
                       "--log-dir",
                       (scratch / "logs").string(),
                       "--quiet"};
    command.insert(command.end(), program.begin(), program.end());
    command.push_back(stamps);
    return command;
  };
  const Command probe = {(programs.bin / "recovery_torch_probe").string()};
  std::vector<Contender> all = {{"launch, executed", {launch("--no-warm", probe)}},
                                {"launch, warm", {launch("--warm", probe)}}};
  if (programs.torchrun.empty()) return all;
  const std::string python = (fs::path(programs.torchrun).parent_path() / "python3").string();
  all.push_back({"launch, warm Python", {launch("--warm", {python, "-u", programs.torch_probe})}, 3});
  // By default torchrun 2.11 does not recover ranks with Gloo: the next attempt gets the same store, and
  // finds the addresses of the dead ranks in it. Only this variable, under c10d rendezvous, gives it a new
  // store.
  all.push_back({"torchrun, Python",
                 {{"env", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1", programs.torchrun, "--standalone",
                   "--nproc-per-node", std::to_string(ranks), "--max-restarts", "1", "--monitor-interval",
                   "0.1", programs.torch_probe, stamps}},
                 4});
  return all;
}

}  // namespace

std::vector<Table> compare_torch(const Programs& programs, int ranks, int runs) {
  const ScratchDirectory scratch;
  const std::vector<Column> columns = {
      {"LibTorch ranks, recovery: a rank's death to init() returned in all of the next attempt",
       "milliseconds", [](const Times& times) { return times.recovered; }},
      {"LibTorch ranks, first start: from the launch to init() returned in all", "milliseconds",
       [](const Times& times) { return times.started; }},
      {"LibTorch ranks, memory: proportional set size of all and of their template", "megabytes",
       [](const Times& times) { return times.memory_mb; }}};
  auto tables =
      compare(torch_contenders(programs, ranks, scratch.path()), columns, ranks, runs, scratch / "stamps");
  return tables;
}

}  // namespace muster::bench
