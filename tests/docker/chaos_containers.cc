// chaos_containers --faults N --seed S [--job I]: jobs in containers that are disturbed, four faults each,
// and what became of them.
//
// The program knows nothing of Muster: each rank counts, and keeps how far it is in a file of its own. After
// each job: it succeeded if and only if it was let, all ranks of its last attempt have counted to the end,
// its exit code is the one that its report has, and no container, network or process is left. A launcher that
// was killed is followed by another one. Prints a line a job; ends with exit code 1 if any failed.
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <unistd.h>

#include "common/base/file.h"
#include "tests/chaos/disturbed_jobs.h"
#include "tests/docker/container_faults.h"
#include "tests/docker/lab.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"
#include "tests/process/run_facts.h"

namespace muster::docker {
namespace {

using namespace std::chrono_literals;

constexpr int kNodes = 3;
constexpr int kSkipped = 77;          // as ctest is told
constexpr auto kFaultPatience = 15s;  // for what is to be hit to be there
constexpr auto kEndLimit = 60s;       // of a job that nothing disturbs any more
constexpr auto kLeftLimit = 15s;      // the silence limit, the controller grace, the grace, and more

// Counts to 30, and on until all faults were made: a job does not end before them. The second word is the
// number of the launch.
constexpr const char* kCounter = R"(#!/bin/sh
mine=$1/rank_$RANK
n=$(cat $mine 2>/dev/null || echo 0)
echo ready at $n
while [ $n -lt 30 ] || [ ! -e $1/enough ]; do
  sleep 0.1
  n=$((n+1))
  echo $n >$mine.$$ && mv $mine.$$ $mine
done
echo $n >$1/done_$2_${MUSTER_ATTEMPT}_$RANK
)";

struct Plan {
  enum class Size { kSpare, kElastic, kFixed } size = Size::kSpare;
  bool stdio = false;
  bool interrupted = false;  // at last, by Ctrl-C
  std::vector<Fault> faults;
};

Plan make_plan(std::uint64_t seed, int fault_count) {
  std::mt19937_64 random(seed);
  Plan plan;
  plan.size = static_cast<Plan::Size>(random() % 3);
  plan.stdio = random() % 3 == 0;
  plan.interrupted = random() % 5 == 0;
  for (int i = 0; i < fault_count; ++i) plan.faults.push_back(draw(random, kNodes));
  return plan;
}

std::string text_of(const Plan& plan) {
  constexpr const char* kSizes[] = {"spare", "elastic", "fixed"};
  std::string text =
      fmt::format("{}, {}", kSizes[static_cast<int>(plan.size)], plan.stdio ? "stdio" : "auto");
  for (const Fault& fault : plan.faults)
    text += fmt::format("; +{} ms {}", fault.pause.count(), text_of(fault));
  return text + (plan.interrupted ? "; Ctrl-C" : "");
}

class Trial {
 public:
  Trial(Lab& lab, const Plan& plan) : lab_(lab), plan_(plan), faults_(lab.engine, "counter") {}
  // What was not as it should be.
  std::vector<std::string> run();
  int faults_made() const { return faults_made_; }
  std::string said() const;

 private:
  void launch();
  std::vector<std::string> words() const;
  bool ready() const;
  void wait(std::chrono::milliseconds time);
  void disturb();
  bool begin(const Fault& fault);
  void check_end();
  void check_success(const nlohmann::json& report);
  void check_left();
  std::vector<std::string> left() const;
  LaunchRun& current() const { return *launches_.back(); }
  void expect(bool held, const std::string& what) {
    if (!held) violations_.push_back(what);
  }

  Lab& lab_;
  const Plan& plan_;
  Faults faults_;
  ScratchDirectory scratch_;  // where launch runs, and seen by the containers
  std::vector<std::unique_ptr<LaunchRun>> launches_;
  std::vector<std::string> violations_;
  int faults_made_ = 0;
};

std::vector<std::string> Trial::words() const {
  const bool elastic = plan_.size == Plan::Size::kElastic;
  std::vector<std::string> all{"--image", "bookworm", "--nodes", elastic ? "2:3" : "3"};
  if (plan_.size == Plan::Size::kSpare) all.insert(all.end(), {"--spare-nodes", "1"});
  all.insert(all.end(), {"--control", plan_.stdio ? "stdio" : "auto", "--silence-limit", "2"});
  all.insert(all.end(), {"--controller-grace", "4", "--grace", "2", "--connect-timeout", "20"});
  all.insert(all.end(), {"--max-restarts", "100", "--no-progress-limit", "0", "--restart-delay", "0.2"});
  all.insert(all.end(), {scratch_ / "counter", scratch_.path(), std::to_string(launches_.size())});
  return all;
}

void Trial::launch() {
  launches_.push_back(
      std::make_unique<LaunchRun>(words(), lab_.environment(), LAUNCH_PROGRAM, [this](const std::string&) {
        const pid_t pid = lab_.host.fork();
        if (pid == 0 && chdir(scratch_.path().c_str()) != 0) _exit(98);
        return pid;
      }));
}

bool Trial::ready() const {
  return count_in(current().out(), "ready at") >= kNodes;
}

void Trial::wait(std::chrono::milliseconds time) {
  for (const TimePoint until = Clock::now() + time; Clock::now() < until;) {
    faults_.end_due();
    std::this_thread::sleep_for(10ms);
  }
}

bool Trial::begin(const Fault& fault) {
  // A launch of which no worker has run yet ends with 125 where a node does not reach the others.
  if (cuts_network(fault.kind) && !ready()) return false;
  if (fault.kind != Kind::kKillLauncher) return faults_.begin(fault);
  current().signal(SIGKILL);
  current().exit_code();
  launch();
  return true;
}

void Trial::disturb() {
  for (const Fault& fault : plan_.faults) {
    wait(fault.pause);
    const TimePoint until = Clock::now() + kFaultPatience;
    bool made = false;
    while (!(made = begin(fault)) && Clock::now() < until && is_running(current().pid())) wait(20ms);
    faults_made_ += made ? 1 : 0;
  }
}

std::vector<std::string> Trial::run() {
  std::ofstream(scratch_ / "counter") << kCounter;
  std::filesystem::permissions(scratch_ / "counter", std::filesystem::perms(0755));
  launch();
  const auto there = [this] { return ready() || !is_running(current().pid()); };
  if (eventually(there, 40s) && ready()) {
    disturb();
    expect(is_running(current().pid()), "the job ended before it was let");
  } else {
    expect(false, "the ranks are not there");
  }
  if (plan_.interrupted || !violations_.empty()) {
    current().signal(SIGINT);
  } else {
    std::ofstream(scratch_ / "enough") << "";
  }
  // Faults that have not ended go on.
  while (!faults_.over() && is_running(current().pid())) wait(10ms);
  for (const TimePoint until = Clock::now() + kEndLimit; is_running(current().pid()) && Clock::now() < until;)
    wait(10ms);
  faults_.end_all();
  check_end();
  check_left();
  return std::move(violations_);
}

std::string Trial::said() const {
  std::string all;
  for (const auto& run : launches_) all += fmt::format("{}--\n", run->err());
  return all;
}

void Trial::check_end() {
  if (is_running(current().pid())) {
    expect(false, "the job does not end");
    current().signal(SIGKILL);
    current().exit_code();
    return;
  }
  const int code = current().exit_code();
  // One that is interrupted before it has a directory for its job has nothing to report.
  if (plan_.interrupted && code == 130 && current().job_directory().empty()) return;
  const nlohmann::json report = current().report();
  expect(report.value("exit_code", -1) == code,
         fmt::format("it exited with {}, and its report has {}", code, report.value("exit_code", -1)));
  const int wanted = plan_.interrupted ? 130 : 0;
  expect(code == wanted, fmt::format("it exited with {}, not with {}", code, wanted));
  if (code == 0) check_success(report);
}

void Trial::check_success(const nlohmann::json& report) {
  const auto& last = report.at("attempts").back();
  const int ranks = last.at("world_size");
  expect(ranks >= (plan_.size == Plan::Size::kElastic ? kNodes - 1 : kNodes),
         fmt::format("only {} ranks took part", ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string name =
        fmt::format("done_{}_{}_{}", launches_.size() - 1, last.at("attempt").get<int>(), rank);
    const auto counted = read_file(scratch_ / name, 64);
    const int steps = counted ? std::atoi(counted->c_str()) : 0;
    expect(steps >= 30, fmt::format("WRONG SUCCESS: rank {} counted to {}", rank, steps));
  }
}

std::vector<std::string> Trial::left() const {
  std::vector<std::string> found;
  for (const std::string& name : lab_.engine.containers()) found.push_back("container " + name);
  for (const std::string& name : lab_.engine.networks()) found.push_back("network " + name);
  std::vector<pid_t> processes = lab_.engine.processes();
  for (const auto& run : launches_) {
    for (const pid_t pid : run->descendants()) processes.push_back(pid);
  }
  for (const pid_t pid : processes) {
    std::string command = read_file(fmt::format("/proc/{}/cmdline", pid), 1 << 16).value_or("");
    std::ranges::replace(command, '\0', ' ');
    // The engine's own, before it has become a process of the container: an engine that is killed just then
    // forgets it, and no launch can name it. The engine's end ends it.
    if (command.starts_with("runc init")) continue;
    found.push_back(fmt::format("process {} {}", pid, command));
  }
  return found;
}

// The next job begins with a clean engine whatever was left.
void Trial::check_left() {
  if (eventually([this] { return left().empty(); }, kLeftLimit)) return;
  for (const std::string& each : left()) expect(false, "LEFT: " + each);
  for (const std::string& name : lab_.engine.containers()) lab_.engine.docker({"rm", "--force", name});
  for (const std::string& name : lab_.engine.networks()) lab_.engine.docker({"network", "rm", name});
}

int run(const chaos::DisturbedJobs& jobs) {
  if (const std::string why = why_no_engine(); !why.empty()) {
    fmt::print("{}: skipped: {}\n", jobs.program, why);
    return kSkipped;
  }
  Lab lab;
  lab.engine.load("bookworm");
  return chaos::run_all(jobs, [&lab](std::uint64_t seed, int faults) {
    const Plan plan = make_plan(seed, faults);
    Trial trial(lab, plan);
    std::vector<std::string> violations = trial.run();
    return chaos::DisturbedJob{text_of(plan), std::move(violations), trial.faults_made(), trial.said()};
  });
}

}  // namespace
}  // namespace muster::docker

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  muster::chaos::DisturbedJobs jobs{.program = "chaos_containers", .faults = 20};
  return muster::chaos::read_command_line(argc, argv, jobs) ? muster::docker::run(jobs) : 2;
}
