// The agent's c10d store and torch's own server, in turn, in one run: the time until ready, the time of 64
// clients to a barrier, and set+get latency.
//
//   store [--clients 64] [--runs 9] [--python PATH] [--json]
//
// Each run starts a fresh process of each server. The clients are the same for both (store_client.h), and are
// threads of this program.
#include <CLI/CLI.hpp>
#include <barrier>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <memory>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "bench/measure.h"
#include "bench/store/store_client.h"

extern char** environ;

namespace muster::bench {
namespace {

namespace fs = std::filesystem;
using Command = std::vector<std::string>;
using Figures = std::map<std::string, double>;  // "case|unit" -> measured value

// A server process. It prints its port and the microseconds of opening the store, and ends with its stdin.
class ServerProcess {
 public:
  explicit ServerProcess(const Command& command) {
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    int input[2], output[2];
    CHECK(::pipe2(input, O_CLOEXEC) == 0 && ::pipe2(output, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], 0);
    posix_spawn_file_actions_adddup2(&actions, output[1], 1);
    const std::int64_t begin = now_ns();
    const int error = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    CHECK(error == 0, "cannot run {}", command[0]);
    ::close(input[0]);
    ::close(output[1]);
    input_.reset(input[1]);
    std::string line;
    for (char byte = 0; byte != '\n' && ::read(output[0], &byte, 1) == 1;) line += byte;
    process_ms_ = static_cast<double>(now_ns() - begin) / 1e6;
    CHECK(std::sscanf(line.c_str(), "%hu %lf", &port_, &open_us_) == 2, "{} did not open a store",
          command[0]);
    ::close(output[0]);
  }
  ~ServerProcess() {
    input_.reset();
    ::waitpid(pid_, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  std::uint16_t port() const { return port_; }
  // Processor time of all its threads so far. Unlike latency, it does not depend on the machine's other
  // work.
  double cpu_us() const {
    double total = 0;
    for (const auto& thread : fs::directory_iterator(fmt::format("/proc/{}/task", pid_))) {
      const auto text = read_file(thread.path() / "schedstat", 1000);
      if (text) total += std::strtod(text->c_str(), nullptr) / 1e3;
    }
    return total;
  }
  double open_us() const { return open_us_; }
  double process_ms() const { return process_ms_; }

 private:
  UniqueFd input_;
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
  double open_us_ = 0;
  double process_ms_ = 0;
};

void arrive(StoreClient& client, int clients, int round) {
  const std::string go = fmt::format("go{}", round);
  if (client.add(fmt::format("arrived{}", round), 1) == clients) client.set(go, "1");
  client.wait(go);
}

// Clients connect at the same time and meet at a barrier; then the connected clients meet again and again.
void measure_barriers(std::uint16_t port, int clients, Figures& figures) {
  constexpr int kRounds = 30;
  std::int64_t begin = 0;
  std::vector<double> rounds;
  const auto note = [&]() noexcept {
    const std::int64_t now = now_ns();
    if (begin != 0) rounds.push_back(static_cast<double>(now - begin) / 1e6);
    begin = now;
  };
  const auto reset = [&]() noexcept { begin = now_ns(); };
  std::barrier start(clients, reset);
  std::barrier end(clients, note);
  std::vector<std::jthread> threads;
  for (int index = 0; index < clients; ++index) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      StoreClient client(port);
      for (int round = 0; round < kRounds; ++round) {
        arrive(client, clients, round);
        end.arrive_and_wait();
        start.arrive_and_wait();
      }
    });
  }
  threads.clear();
  figures[fmt::format("{} clients: connect and meet|ms", clients)] = rounds.front();
  figures[fmt::format("{} connected clients meet|ms", clients)] = median({rounds.begin() + 1, rounds.end()});
}

void measure_latency(std::uint16_t port, int clients, int count, Figures& figures) {
  std::vector<std::vector<double>> all(static_cast<std::size_t>(clients));
  std::barrier start(clients);
  std::vector<std::jthread> threads;
  for (int index = 0; index < clients; ++index) {
    threads.emplace_back([&, index] {
      StoreClient client(port);
      const std::string key = fmt::format("key{}", index), value(100, 'v');
      start.arrive_and_wait();
      for (int turn = 0; turn < count; ++turn) {
        const std::int64_t begin = now_ns();
        client.set(key, value);
        const std::string seen = client.get(key);
        if (turn >= count / 10)
          all[static_cast<std::size_t>(index)].push_back(static_cast<double>(now_ns() - begin) / 1e3);
        CHECK(seen == value);
      }
    });
  }
  threads.clear();
  std::vector<double> merged;
  for (const auto& one : all) merged.insert(merged.end(), one.begin(), one.end());
  for (const auto& [name, fraction] : {std::pair{"p50", 0.5}, std::pair{"p99", 0.99}}) {
    figures[fmt::format("set+get, {} client{}, {}|us", clients, clients == 1 ? "" : "s", name)] =
        percentile(merged, fraction);
  }
}

Figures measure(const Command& command, int clients) {
  Figures figures;
  ServerProcess server(command);
  figures["open the store|us"] = server.open_us();
  figures["start a process that serves it|ms"] = server.process_ms();
  measure_latency(server.port(), 1, 3000, figures);
  constexpr int kClients = 16, kTurns = 300;
  const double cpu_before_us = server.cpu_us();
  measure_latency(server.port(), kClients, kTurns, figures);
  figures["set+get, 16 clients, processor time of the server|us"] =
      (server.cpu_us() - cpu_before_us) / (kClients * kTurns);
  measure_barriers(server.port(), clients, figures);
  return figures;
}

constexpr const char* kTorchServer = R"(
import sys, time
from torch.distributed import TCPStore
begin = time.perf_counter()
store = TCPStore('127.0.0.1', 0, is_master=True, wait_for_workers=False)
print(store.port, (time.perf_counter() - begin) * 1e6, flush=True)
sys.stdin.read()
)";

int run(int argc, char** argv) {
  CLI::App app("The agent's c10d store, compared with torch's own server");
  int clients = 64;
  int runs = 9;
  bool json = false;
  std::string python = MUSTER_TORCH_PYTHON;
  app.add_option("--clients", clients, "Clients that meet")->check(CLI::Range(2, 1000));
  app.add_option("--runs", runs, "Runs of each server")->check(CLI::Range(1, 1000));
  app.add_option("--python", python, "An interpreter with torch");
  app.add_flag("--json", json, "Print JSON");
  CLI11_PARSE(app, argc, argv);

  const std::vector<std::pair<std::string, Command>> contenders = {{"muster", {MUSTER_STORE_SERVER}},
                                                                   {"torch", {python, "-c", kTorchServer}}};
  std::map<std::string, std::vector<Series>> cases;
  for (int run = 0; run < runs; ++run) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      for (const auto& [name, value] : measure(contenders[i].second, clients)) {
        std::vector<Series>& rows = cases[name];
        if (rows.size() <= i) rows.push_back({contenders[i].first, {}, {}});
        rows[i].values.push_back(value);
      }
    }
  }
  Report report(json);
  for (const auto& [name, rows] : cases) {
    const std::size_t bar = name.find('|');
    report.add(name.substr(0, bar), name.substr(bar + 1), rows);
  }
  report.end();
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
