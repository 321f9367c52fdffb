// chaos_containers --faults N --seed S [--job I]: runs jobs in containers with four injected faults each, and
// checks them.
//
// The job's program does not know Muster: each rank counts, and keeps its count in a file. The checks after
// each job: it succeeded unless it was interrupted, all ranks of its last attempt have counted to the end,
// its exit code equals its report's, and no container, network or process is left. Starts another launcher
// after a killed one. Prints a line for each job; exit code 1 if any failed.
#include <csignal>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <unistd.h>

#include "common/base/file.h"
#include "tests/chaos/counting_jobs.h"
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
constexpr int kSkipped = 77;          // the code that ctest takes as skipped
constexpr auto kFaultPatience = 15s;  // to wait until the target of a fault exists
constexpr auto kEndLimit = 60s;       // for the job's end after the last fault
constexpr auto kLeftLimit = 15s;      // the silence limit, the controller grace, the grace, and more

using Plan = chaos::JobPlan<Fault>;

class Trial {
 public:
  Trial(Lab& lab, const Plan& plan) : lab_(lab), plan_(plan), faults_(lab.engine, "counter") {}
  // The failed checks.
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
  void check_left();
  std::vector<std::string> left() const;
  LaunchRun& current() const { return *launches_.back(); }
  // The fewest ranks with which the job may succeed.
  int least_ranks() const { return plan_.size == Plan::Size::kElastic ? kNodes - 1 : kNodes; }
  void expect(bool held, const std::string& what) {
    if (!held) violations_.push_back(what);
  }

  Lab& lab_;
  const Plan& plan_;
  Faults faults_;
  ScratchDirectory scratch_;  // the directory of launch, visible to the containers
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
  // A launch whose workers have not run yet ends with 125 if a node does not reach the others.
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
  chaos::write_counter(scratch_ / "counter");
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
  // Faults that have not ended continue.
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
  // A launch that is interrupted before it creates its job's directory has no report.
  if (plan_.interrupted && code == 130 && current().job_directory().empty()) return;
  const nlohmann::json report = current().report();
  for (const std::string& violation : chaos::violations_of(
           report, code, plan_.interrupted ? 130 : 0, least_ranks(), scratch_.path(), launches_.size() - 1))
    expect(false, violation);
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
    // The engine's own process, before it becomes the container's. An engine that is killed at that moment
    // forgets it, and no launch can name it. It ends with the engine.
    if (command.starts_with("runc init")) continue;
    found.push_back(fmt::format("process {} {}", pid, command));
  }
  return found;
}

// Cleans the engine for the next job.
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
    const Plan plan =
        chaos::make_plan<Fault>(seed, faults, [](std::mt19937_64& random) { return draw(random, kNodes); });
    Trial trial(lab, plan);
    std::vector<std::string> violations = trial.run();
    return chaos::DisturbedJob{chaos::text_of(plan, "auto"), std::move(violations), trial.faults_made(),
                               trial.said()};
  });
}

}  // namespace
}  // namespace muster::docker

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  muster::chaos::DisturbedJobs jobs{.program = "chaos_containers", .faults = 20};
  return muster::chaos::read_command_line(argc, argv, jobs) ? muster::docker::run(jobs) : 2;
}
