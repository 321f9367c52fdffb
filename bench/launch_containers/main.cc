// The time that containers with one rank each take: from the start of the command until the last rank is in
// main(), and until all have ended and nothing is left. Compares `launch --image` with:
//   as many `docker run --rm` at once, which is the limit;
//   the same with a network that is made first and removed last, as `launch` does without --network;
//   docker-compose.
// The contenders run in turn, in one run, on the benchmark's own engine. Root only.
//
//   launch_containers [--nodes 1,4,8] [--runs 15] [--json]
#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "bench/command.h"
#include "bench/measure.h"
#include "common/base/file.h"
#include "tests/docker/lab.h"

namespace muster::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kLimitMilliseconds = 120'000;
constexpr int kMaxFailedTries = 3;
constexpr const char* kImage = "bookworm";
constexpr const char* kPlain = "docker run --rm, at once";
constexpr const char* kCompose = "/usr/bin/docker-compose";

struct Contender {
  std::string name;
  Command command;
};

struct Ground {
  docker::Lab& lab;
  std::string bin, folder;
  std::string probe() const { return bin + "/launch_latency_probe"; }
  std::string stamps() const { return folder + "/stamps"; }
};

// Milliseconds from the start of the command.
struct Times {
  double started = 0;
  double over = 0;
};

std::string docker_runs(const Ground& ground, int count, const std::string& options) {
  const std::string one =
      fmt::format("docker run --rm {} --volume {}:{}:ro --volume {}:{} {} {} {}", options, ground.bin,
                  ground.bin, ground.folder, ground.folder, kImage, ground.probe(), ground.stamps());
  std::string all;
  for (int i = 0; i < count; ++i) all += one + " & ";
  return all + "wait";
}

std::string make_compose_file(const Ground& ground, int count) {
  const std::string path = fmt::format("{}/compose{}.yaml", ground.folder, count);
  std::ofstream file(path);
  file << "version: '3'\nservices:\n";
  for (int i = 0; i < count; ++i)
    file << fmt::format(
        "  node{0}:\n    image: {1}\n    command: [{2}, {3}]\n    volumes: ['{4}:{4}:ro', '{5}:{5}']\n", i,
        kImage, ground.probe(), ground.stamps(), ground.bin, ground.folder);
  return path;
}

std::vector<Contender> contenders(const Ground& ground, int count) {
  const auto shell = [](const std::string& script) { return Command{"sh", "-c", script}; };
  std::vector<Contender> all{{kPlain, shell(docker_runs(ground, count, ""))}};
  for (const bool own : {true, false}) {
    Command ours{ground.bin + "/launch",
                 "--image",
                 kImage,
                 "--nodes",
                 std::to_string(count),
                 "--gpus-per-node",
                 "1",
                 "--mount",
                 fmt::format("{0}:{0}:ro", ground.bin),
                 "--log-dir",
                 ground.folder + "/logs",
                 "--quiet"};
    if (!own) ours.insert(ours.end(), {"--network", "bridge"});
    ours.insert(ours.end(), {ground.probe(), ground.stamps()});
    all.push_back({own ? "launch --image" : "launch, --network bridge", ours});
  }
  all.push_back({"docker run, own network",
                 shell(fmt::format("docker network create own && {{ {}; }}; docker network rm own",
                                   docker_runs(ground, count, "--network own")))});
  if (access(kCompose, X_OK) == 0)
    all.push_back(
        {"docker-compose up, down", shell(fmt::format("{0} --no-ansi -f {1} up; {0} --no-ansi -f {1} down",
                                                      kCompose, make_compose_file(ground, count)))});
  return all;
}

// The folder is the working directory; `launch` mounts it into its containers.
pid_t spawn_on_host(const Ground& ground, const Command& command, const std::string& output) {
  const pid_t pid = ground.lab.host.fork();
  if (pid != 0) return pid;
  if (chdir(ground.folder.c_str()) != 0) _exit(126);
  become(command, ground.lab.environment(), output);
}

// The last rank's stamp; 0 if fewer ranks than expected have one.
std::int64_t last_stamp(const Ground& ground, int count) {
  std::ifstream file(ground.stamps());
  std::int64_t last = 0;
  for (std::int64_t stamp = 0; file >> stamp; --count) last = std::max(last, stamp);
  return count == 0 ? last : 0;
}

Expected<Times> measure(const Ground& ground, const Contender& contender, int count) {
  fs::remove(ground.stamps());
  const std::string output = ground.folder + "/output";
  const std::int64_t begin = now_ns();
  const pid_t pid = spawn_on_host(ground, contender.command, output);
  const auto status = status_within(pid, kLimitMilliseconds);
  const std::int64_t end = now_ns();
  const std::int64_t last = last_stamp(ground, count);
  const docker::Engine& engine = ground.lab.engine;
  const bool clean = engine.containers().empty() && engine.networks().empty();
  if (status == 0 && last != 0 && clean)
    return Times{static_cast<double>(last - begin) / 1e6, static_cast<double>(end - begin) / 1e6};
  const std::string said = read_file(output, 1 << 20).value_or("");
  return failure(ErrorCode::kUnavailable, "{}: {}",
                 !status        ? "did not end"
                 : *status != 0 ? "failed"
                 : last == 0    ? "fewer ranks ran than were started"
                                : "left something behind",
                 said);
}

struct Result {
  std::vector<Series> started, over;
};

Result compare(const Ground& ground, int count, int runs) {
  const auto all = contenders(ground, count);
  Result result;
  for (const Contender& contender : all) {
    result.started.push_back({contender.name, {}, {}});
    result.over.push_back({contender.name, {}, {}});
  }
  std::vector<int> failed(all.size());
  for (int run = -1; run < runs; ++run) {  // the first round only warms caches
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (failed[i] == kMaxFailedTries) continue;
      const auto times = measure(ground, all[i], count);
      if (!times) {
        const std::string note = fmt::format("{} tries {}", ++failed[i], times.error().message());
        result.started[i].note = result.over[i].note = note;
      } else if (run >= 0) {
        result.started[i].values.push_back(times->started);
        result.over[i].values.push_back(times->over);
      }
    }
  }
  for (auto* rows : {&result.started, &result.over}) {
    for (Series& row : *rows) {
      const Series& limit = rows->front();
      if (&row == &limit || row.values.empty() || row.values.size() != limit.values.size()) continue;
      const Interval ratio = ratio_interval(row.values, limit.values);
      row.note = fmt::format("{:.2f} to {:.2f}", ratio.low, ratio.high);
    }
  }
  return result;
}

nlohmann::json measure_all(const std::vector<int>& counts, int runs, bool json) {
  docker::Lab lab;
  lab.engine.load(kImage);
  const std::string bin = own_folder();
  const Ground ground{lab, bin, lab.hosts.shared() + "/bench"};
  fs::create_directory(ground.folder);
  nlohmann::json report = nlohmann::json::array();
  for (const int count : counts) {
    const Result result = compare(ground, count, runs);
    const std::pair<const char*, const std::vector<Series>&> tables[] = {
        {"until the last rank is in main()", result.started}, {"until all have ended", result.over}};
    for (const auto& [unit, rows] : tables) {
      const std::string title = fmt::format("{} containers, {}", count, unit);
      if (!json) print_table(title, "milliseconds; 95 % interval of the ratio", rows);
      report.push_back(to_json(title, "milliseconds", rows));
    }
    std::fflush(stdout);
  }
  return report;
}

int run(int argc, char** argv) {
  CLI::App app("Start and end of containers with launch, compared with docker run and docker-compose");
  std::vector<int> counts = {1, 4, 8};
  int runs = 15;
  bool json = false;
  app.add_option("--nodes", counts, "Numbers of containers")->delimiter(',')->check(CLI::Range(1, 100));
  app.add_option("--runs", runs, "Counted runs of each contender")->check(CLI::Range(1, 1000));
  app.add_flag("--json", json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  if (const std::string why = docker::why_no_engine(); !why.empty()) {
    fmt::print(stderr, "launch_containers: {}\n", why);
    return 77;
  }
  const nlohmann::json report = measure_all(counts, runs, json);
  if (json) fmt::print("{}\n", report.dump(2));
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
