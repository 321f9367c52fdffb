// The time from starting a launcher on one host until its last rank is in main() on other hosts. Compares
// Muster with Open MPI's mpirun, MPICH's mpiexec.hydra and pdsh, in turn, in one run, over the same hosts in
// namespaces of this machine. Uses a plain channel (a program that enters a host) and ssh. With --silent,
// Muster also runs over ssh with one more host, which drops packets. Root only.
//
// The hosts' files are in memory: on ext4, making a file skips every inode freed in the last minutes, so each
// run would slow down the next one.
//
//   launch_hosts [--hosts 1,2,4,8,16] [--runs 15] [--channels plain,ssh] [--silent] [--json]
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <sched.h>
#include <sys/mount.h>

#include "bench/command.h"
#include "bench/measure.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "tests/hosts/lab.h"
#include "tests/scratch_directory.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kLimitMilliseconds = 30'000;
constexpr int kMaxFailedTries = 3;
constexpr const char* kStamps = "/tmp/stamps";
constexpr const char* kUnit =
    "milliseconds from the start of the launcher to the last rank's main(); one rank a host";

struct Contender {
  std::string name;
  Command command;
  bool ours = false;
  std::string beside{};  // the contender to compare with; empty: the best of the others
};

// The program that all contenders start, its hosts, and the surroundings.
struct Ground {
  const hosts::Lab& lab;
  std::string bin, probe, remote_shell, logs;
  std::vector<std::string> names{};  // the hosts' names
  std::string silent{};              // one more host, which drops packets; or empty

  std::string stamps_on(std::size_t host) const {
    return lab.temporary(static_cast<int>(host)) + fs::path(kStamps).filename().string();
  }
  std::string joined(const std::string& behind = "") const {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ",") + name + behind;
    return all;
  }
};

// Writes the rsh of mpirun and mpiexec.hydra: [OPTION...] HOST COMMAND...; a shell on the host runs the
// command.
std::string make_remote_shell(const hosts::Lab& lab) {
  const std::string path = lab.shared() + "/rsh";
  std::ofstream(path)
      << "#!/bin/sh\nwhile :; do case $1 in -*) shift ;; *) break ;; esac; done\nhost=$1\nshift\nexec "
      << lab.enter_program() << " \"$host\" sh -c \"$*\"\n";
  fs::permissions(path, fs::perms(0755));
  return path;
}

std::vector<Contender> contenders(const Ground& ground, bool plain) {
  std::vector<Contender> all;
  for (const char* control : {"tcp", "stdio"}) {
    Command ours{ground.bin + "/launch",
                 "--hosts",
                 ground.joined(),
                 "--gpus-per-node",
                 "1",
                 "--control",
                 control,
                 "--log-dir",
                 ground.logs,
                 "--quiet"};
    // The other launchers' daemons are installed on each host too, at the same path.
    if (plain)
      ours.insert(ours.end(), {"--exec", ground.lab.enter_program() + " {host}", "--remote-agent",
                               ground.bin + "/muster-agent"});
    ours.insert(ours.end(), {ground.probe, kStamps});
    all.push_back({fmt::format("launch, {}", control), ours, true});
  }
  const std::string count = std::to_string(ground.names.size());
  if (!plain && !ground.silent.empty()) {
    Command ours = all.front().command;
    ours[2] = ground.silent + "," + ours[2];
    const std::string nodes = fmt::format("{}:{}", count, ground.names.size() + 1);
    // Muster need not wait for the silent host; this measures whether it delays the start.
    ours.insert(ours.begin() + 1, {"--nodes", nodes, "--start-timeout", "0"});
    all.push_back({"launch, tcp, and a silent host", ours, true, all.front().name});
  }
  Command hydra{"mpiexec.hydra", "-hosts", ground.joined(), "-n", count};
  hydra.insert(hydra.end(), {"-launcher", plain ? "rsh" : "ssh"});
  if (plain) hydra.insert(hydra.end(), {"-launcher-exec", ground.remote_shell});
  hydra.insert(hydra.end(), {ground.probe, kStamps});
  all.push_back({"mpiexec.hydra", hydra});
  Command mpirun{"mpirun.openmpi", "--allow-run-as-root", "--host", ground.joined(":1"), "-n", count};
  if (plain) mpirun.insert(mpirun.end(), {"--mca", "plm_rsh_agent", ground.remote_shell});
  mpirun.insert(mpirun.end(), {ground.probe, kStamps});
  all.push_back({"mpirun", mpirun});
  Command pdsh{"pdsh", "-S", "-R", plain ? "exec" : "ssh", "-w", ground.joined()};
  if (plain) pdsh.insert(pdsh.end(), {ground.lab.enter_program(), "%h"});
  pdsh.insert(pdsh.end(), {ground.probe, kStamps});
  all.push_back({"pdsh", pdsh});
  return all;
}

// The time at which the last rank was in main; empty unless every host had exactly one. A host has its own
// /tmp, so a rank on the wrong host counts as missing.
std::optional<std::int64_t> last_of(const Ground& ground) {
  std::int64_t last = 0;
  for (std::size_t i = 1; i <= ground.names.size(); ++i) {
    const auto text = read_file(ground.stamps_on(i), 1 << 20);
    if (!text || std::ranges::count(*text, '\n') != 1) return std::nullopt;
    last = std::max<std::int64_t>(last, std::strtoll(text->c_str(), nullptr, 10));
  }
  return last;
}

// Milliseconds, or the problem.
Expected<double> measure(const Ground& ground, const Contender& contender) {
  for (int i = 0; i < ground.lab.size(); ++i) fs::remove(ground.stamps_on(static_cast<std::size_t>(i)));
  const std::string output = ground.lab.shared() + "/output";
  const std::int64_t begin = now_ns();
  const pid_t pid = ground.lab.head().fork();
  if (pid == 0) become(contender.command, ground.lab.environment(0), output);
  const auto status = status_within(pid, kLimitMilliseconds);
  const auto last = last_of(ground);
  if (status == 0 && last) return static_cast<double>(*last - begin) / 1e6;
  std::string said = read_file(output, 1 << 20).value_or("");
  while (!said.empty() && said.back() == '\n') said.pop_back();
  const std::string why = !status        ? "did not end"
                          : *status != 0 ? "failed"
                                         : "some host did not run exactly one rank";
  return failure(ErrorCode::kUnavailable, "{}{}", why,
                 said.empty() ? "" : ": " + said.substr(said.rfind('\n') + 1));
}

struct Result {
  std::vector<Series> rows;
  std::map<std::string, Interval> to_best;  // for each of our contenders: its ratio to the best of the others
  std::string best;
};

Result compare(const Ground& ground, bool plain, int runs) {
  const auto all = contenders(ground, plain);
  Result result;
  for (const Contender& contender : all) result.rows.push_back({contender.name, {}, {}});
  std::vector<int> failed(all.size());
  for (int run = -1; run < runs; ++run) {  // the first round only warms caches and copies agents
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (failed[i] == kMaxFailedTries) continue;
      const auto milliseconds = measure(ground, all[i]);
      if (!milliseconds) {
        ++failed[i];
        result.rows[i].note = fmt::format("{} tries {}", failed[i], milliseconds.error().message());
      } else if (run >= 0) {
        result.rows[i].values.push_back(*milliseconds);
      }
    }
  }
  const Series* best = nullptr;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Series& row = result.rows[i];
    if (all[i].ours || row.values.empty()) continue;
    if (best == nullptr || median(row.values) < median(best->values)) best = &row;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    Series& row = result.rows[i];
    const auto named = std::ranges::find(result.rows, all[i].beside, &Series::contender);
    const Series* base = named != result.rows.end() ? &*named : best;
    if (base == nullptr || !all[i].ours || row.values.size() != base->values.size() || row.values.empty())
      continue;
    const Interval ratio = ratio_interval(row.values, base->values);
    if (base == best) result.to_best[row.contender] = ratio;
    row.note = fmt::format("{:.2f} to {:.2f} of {}", ratio.low, ratio.high, base->contender);
  }
  if (best != nullptr) result.best = best->contender;
  return result;
}

// Mounts a tmpfs that only this process and its children see.
void keep_files_in_memory(const std::string& directory) {
  CHECK(unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
            mount("muster", directory.c_str(), "tmpfs", 0, nullptr) == 0,
        "cannot mount a tmpfs on {}: {}", directory, std::strerror(errno));
  setenv("TMPDIR", directory.c_str(), 1);
}

struct Options {
  std::vector<int> hosts = {1, 2, 4, 8, 16};
  std::vector<std::string> channels = {"plain", "ssh"};
  int runs = 15;
  bool silent = false;
  bool json = false;
};

nlohmann::json measure_all(const Options& options) {
  // The head is a separate host, so that all contenders reach every rank in the same way.
  const int most = *std::ranges::max_element(options.hosts);
  hosts::Lab lab(most + (options.silent ? 2 : 1));
  if (options.silent) lab.drop_packets_to(most + 1);
  const std::string bin = own_folder();
  Ground ground{lab, bin, bin + "/launch_latency_probe", make_remote_shell(lab), lab.shared() + "/logs"};
  if (options.silent) ground.silent = lab.host(most + 1).name();
  nlohmann::json report = nlohmann::json::array();
  for (const std::string& channel : options.channels) {
    for (const int count : options.hosts) {
      ground.names.clear();
      for (int i = 1; i <= count; ++i) ground.names.push_back(lab.host(i).name());
      const Result result = compare(ground, channel == "plain", options.runs);
      const std::string title = fmt::format("{} hosts, {}", count, channel);
      if (!options.json) print_table(title, kUnit, result.rows);
      std::fflush(stdout);
      report.push_back(to_json(title, kUnit, result.rows));
      for (const auto& [name, ratio] : result.to_best)
        report.back()["ratio_to_best"][name] = {
            {"best", result.best}, {"low", ratio.low}, {"high", ratio.high}};
    }
  }
  return report;
}

int run(int argc, char** argv) {
  CLI::App app(
      "Launcher start to the last rank's main() on other hosts, compared with mpirun, mpiexec.hydra and pdsh");
  Options options;
  app.add_option("--hosts", options.hosts, "Numbers of hosts")->delimiter(',')->check(CLI::Range(1, 150));
  app.add_option("--channels", options.channels, "plain, ssh, or both")
      ->delimiter(',')
      ->check(CLI::IsMember({"plain", "ssh"}));
  app.add_option("--runs", options.runs, "Counted runs of each contender")->check(CLI::Range(1, 1000));
  app.add_flag("--silent", options.silent, "Over ssh also with one more host, which drops packets");
  app.add_flag("--json", options.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  if (const std::string why = hosts::why_no_lab(); !why.empty()) {
    fmt::print(stderr, "launch_hosts: {}\n", why);
    return 77;
  }
  const ScratchDirectory place;
  keep_files_in_memory(place.path().string());
  const nlohmann::json report = measure_all(options);
  if (options.json) fmt::print("{}\n", report.dump(2));
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
