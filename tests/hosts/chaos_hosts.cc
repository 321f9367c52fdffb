// chaos_hosts --faults N --seed S [--job I]: runs jobs over hosts with four injected faults each, and checks
// them.
//
// The job's program does not know Muster: each rank counts, and keeps its count in a file. The checks after
// each job: it succeeded unless it was interrupted, all ranks of its last attempt have counted to the end,
// its exit code equals its report's, and no process is left on any host. Prints a line for each job; exit
// code 1 if any failed.
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/chaos/counting_jobs.h"
#include "tests/chaos/disturbed_jobs.h"
#include "tests/hosts/disturbance.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"
#include "tests/process/run_facts.h"

namespace muster::hosts {
namespace {

using namespace std::chrono_literals;

constexpr int kHosts = 5;
constexpr int kNodes = 4;
constexpr auto kFaultPatience = 8s;  // to wait until the target of a fault exists
constexpr auto kEndLimit = 75s;      // for the job's end after the last fault
constexpr auto kLeftLimit = 15s;     // the silence limit, the controller grace, the grace, and 5 s

using Plan = chaos::JobPlan<Disturbance>;

class Trial {
 public:
  Trial(Lab& lab, const Plan& plan) : lab_(lab), plan_(plan), disturber_(lab, kNodes) {}
  // The failed checks.
  std::vector<std::string> run();
  int faults_made() const { return faults_made_; }
  const std::string& said() const { return said_; }

 private:
  void launch();
  bool ready() const;
  void wait(std::chrono::milliseconds time);
  void disturb();
  void check_end();
  void check_hosts();
  // The fewest ranks with which the job may succeed.
  int least_ranks() const { return plan_.size == Plan::Size::kElastic ? kNodes - 1 : kNodes; }
  void expect(bool held, const std::string& what) {
    if (!held) violations_.push_back(what);
  }

  Lab& lab_;
  const Plan& plan_;
  Disturber disturber_;
  ScratchDirectory scratch_;  // visible on all hosts
  std::unique_ptr<LaunchRun> run_;
  std::vector<std::string> violations_;
  int faults_made_ = 0;
  std::string said_;
};

void Trial::launch() {
  chaos::write_counter(scratch_ / "counter");
  const bool spare = plan_.size == Plan::Size::kSpare;
  std::string hosts;
  for (int i = 0; i < (spare ? kHosts : kNodes); ++i) hosts += (i == 0 ? "" : ",") + lab_.host(i).name();
  const std::string nodes = plan_.size == Plan::Size::kElastic ? "3:4" : "4";
  run_ = std::make_unique<LaunchRun>(std::vector<std::string>{"--hosts",
                                                              hosts,
                                                              "--nodes",
                                                              nodes,
                                                              "--control",
                                                              plan_.stdio ? "stdio" : "tcp",
                                                              "--silence-limit",
                                                              "2",
                                                              "--controller-grace",
                                                              "4",
                                                              "--grace",
                                                              "2",
                                                              "--connect-timeout",
                                                              "3",
                                                              "--max-restarts",
                                                              "100",
                                                              "--restart-delay",
                                                              "0.2",
                                                              scratch_ / "counter",
                                                              scratch_.path(),
                                                              "0"},
                                     lab_.environment(0), LAUNCH_PROGRAM,
                                     [this](const std::string&) { return lab_.head().fork(0); });
}

bool Trial::ready() const {
  return count_in(run_->out(), "ready at") >= kNodes;
}

void Trial::wait(std::chrono::milliseconds time) {
  for (const TimePoint until = Clock::now() + time; Clock::now() < until;) {
    disturber_.end_due();
    std::this_thread::sleep_for(5ms);
  }
}

void Trial::disturb() {
  for (const Disturbance& fault : plan_.faults) {
    wait(fault.pause);
    const TimePoint until = Clock::now() + kFaultPatience;
    bool made = false;
    while (!(made = disturber_.begin(fault)) && Clock::now() < until && is_running(run_->pid())) wait(20ms);
    faults_made_ += made ? 1 : 0;
  }
}

std::vector<std::string> Trial::run() {
  launch();
  if (eventually([this] { return ready(); })) {
    disturb();
    expect(is_running(run_->pid()), "the job ended before it was let");
    if (plan_.interrupted) {
      run_->signal(SIGINT);
    } else {
      std::ofstream(scratch_ / "enough") << "";
    }
  } else {
    expect(false, "the ranks are not there");
    run_->signal(SIGINT);
  }
  // Faults that have not ended continue.
  while (!disturber_.over() && is_running(run_->pid())) wait(10ms);
  for (const TimePoint until = Clock::now() + kEndLimit; is_running(run_->pid()) && Clock::now() < until;)
    wait(10ms);
  disturber_.end_all();
  check_end();
  check_hosts();
  said_ = run_->err();
  return std::move(violations_);
}

void Trial::check_end() {
  if (is_running(run_->pid())) {
    expect(false, "the job does not end");
    run_->signal(SIGKILL);
    run_->exit_code();
    return;
  }
  const int code = run_->exit_code();
  const nlohmann::json report = run_->report();
  for (const std::string& violation :
       chaos::violations_of(report, code, plan_.interrupted ? 130 : 0, least_ranks(), scratch_.path(), 0))
    expect(false, violation);
}

void Trial::check_hosts() {
  const auto all_empty = [this] {
    for (int i = 0; i < lab_.size(); ++i) {
      if (!lab_.processes(i).empty()) return false;
    }
    return true;
  };
  if (eventually(all_empty, kLeftLimit)) return;
  for (int i = 0; i < lab_.size(); ++i) {
    for (const pid_t pid : lab_.processes(i)) {
      std::string words = read_file(fmt::format("/proc/{}/cmdline", pid), 1 << 16).value_or("");
      std::ranges::replace(words, '\0', ' ');
      expect(false, fmt::format("ORPHAN on h{}: {} {}", i, pid, words));
      kill(pid, SIGKILL);
    }
  }
}

int run(const chaos::DisturbedJobs& jobs) {
  if (const std::string why = why_no_lab(); !why.empty()) {
    fmt::print("{}: left out: {}\n", jobs.program, why);
    return 0;
  }
  Lab lab(kHosts);
  return chaos::run_all(jobs, [&lab](std::uint64_t seed, int faults) {
    const Plan plan = chaos::make_plan<Disturbance>(
        seed, faults, [](std::mt19937_64& random) { return draw(random, kNodes); });
    Trial trial(lab, plan);
    std::vector<std::string> violations = trial.run();
    return chaos::DisturbedJob{chaos::text_of(plan, "tcp"), std::move(violations), trial.faults_made(),
                               trial.said()};
  });
}

}  // namespace
}  // namespace muster::hosts

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  muster::chaos::DisturbedJobs jobs{.program = "chaos_hosts", .faults = 40};
  return muster::chaos::read_command_line(argc, argv, jobs) ? muster::hosts::run(jobs) : 2;
}
