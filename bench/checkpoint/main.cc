// Saving and restoring a large state: how long training waits, how long until the checkpoint is committed,
// and how long a restore takes. Compared in one run with torch.save, torch.distributed.checkpoint, memcpy and
// raw direct reads and writes.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/command.h"
#include "bench/measure.h"
#include "tests/scratch_directory.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json result_of(const Command& command, const fs::path& file) {
  fs::remove(file);
  const pid_t pid = spawn(command);
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) return json::object();
  std::ifstream read(file);
  return json::parse(read, nullptr, false);
}

Series row(const std::string& contender, const json& result, const std::string& name, double factor = 1000) {
  Series series{contender, {}, {}};
  if (!result.is_object() || !result.contains(name)) return series;
  for (const double value : result[name]) series.values.push_back(value * factor);
  return series;
}

struct Table {
  std::string title;
  std::string unit;
  std::vector<Series> rows;  // ratios are to the first row
};

std::vector<Table> tables_of(const json& ours, const json& memory, const json& theirs) {
  return {{"training waits",
           "ms, the slowest rank",
           {row("memcpy of the share", ours, "memcpy"), row("Muster, first save", ours, "first blocked"),
            row("Muster", ours, "blocked"), row("Muster, in memory, first two", memory, "first blocked"),
            row("Muster, in memory", memory, "blocked"), row("async_save", theirs, "async_save blocked"),
            row("dcp.save", theirs, "dcp.save"), row("torch.save", theirs, "torch.save")}},
          {"until it is committed",
           "ms",
           {row("raw direct writes", ours, "raw write"), row("Muster, first save", ours, "first committed"),
            row("Muster", ours, "committed"), row("async_save", theirs, "async_save committed"),
            row("dcp.save", theirs, "dcp.save"), row("torch.save", theirs, "torch.save")}},
          {"restore, nothing in memory",
           "ms",
           {row("raw direct reads", ours, "raw read"), row("Muster", ours, "restored"),
            row("dcp.load", theirs, "dcp.load"), row("torch.load", theirs, "torch.load")}},
          {"restore from the agents' memory",
           "ms",
           {row("memcpy of the state", memory, "memcpy"), row("Muster", memory, "restored"),
            row("Muster, from the disk", ours, "restored")}},
          {"a step of one thread that computes",
           "ms",
           {row("alone", ours, "step"), row("while a save is written", ours, "step while saving")}},
          {"memory of a rank",
           "MiB",
           {row("peak while saving", ours, "peak MiB of saving", 1),
            row("more while restoring", ours, "more MiB while restoring", 1)}}};
}

int run(int argc, char** argv) {
  CLI::App app("Checkpoints of a large state, compared with PyTorch's");
  std::string directory = "/tmp";
  std::string python = torch_program("python3");
  std::int64_t mib = 2048;
  int ranks = 2, rounds = 5;
  bool as_json = false;
  app.add_option("--directory", directory, "makes its own folder there, and removes it; measures this disk")
      ->capture_default_str();
  app.add_option("--mib", mib, "size of the state")->capture_default_str();
  app.add_option("--ranks", ranks)->capture_default_str();
  app.add_option("--rounds", rounds)->capture_default_str();
  app.add_option("--python", python, "a Python with torch; empty: only Muster")->capture_default_str();
  app.add_flag("--json", as_json);
  CLI11_PARSE(app, argc, argv);
  fs::create_directories(directory);
  const ScratchDirectory scratch(directory);
  directory = scratch.path();
  const fs::path here = own_folder();
  const std::vector<std::string> sizes{std::to_string(mib), std::to_string(ranks), std::to_string(rounds)};
  const json ours = result_of(
      {here / "checkpoint_run", directory, "--mib", sizes[0], "--ranks", sizes[1], "--rounds", sizes[2]},
      directory + "/muster.json");
  const json memory = result_of({here / "launch",
                                 "--quiet",
                                 "--gpus-per-node",
                                 sizes[1],
                                 "--device",
                                 "cpu",
                                 "--max-restarts",
                                 "0",
                                 "--memory-tier",
                                 "1T",
                                 "--checkpoint-dir",
                                 directory + "/left",
                                 "--log-dir",
                                 directory + "/logs",
                                 here / "checkpoint_run",
                                 directory,
                                 "--mib",
                                 sizes[0],
                                 "--ranks",
                                 sizes[1],
                                 "--rounds",
                                 sizes[2],
                                 "--memory"},
                                directory + "/memory.json");
  json theirs = json::object();
  if (!python.empty())
    theirs = result_of({python, here / "checkpoint_run.py", directory, sizes[0], sizes[1], sizes[2]},
                       directory + "/torch.json");
  json all = json::array();
  for (const Table& table : tables_of(ours, memory, theirs)) {
    if (as_json)
      all.push_back(to_json(table.title, table.unit, table.rows));
    else
      print_table(table.title, table.unit, table.rows);
  }
  if (as_json) fmt::print("{}\n", all.dump(1));
  return ours.empty() ? 1 : 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
