// chaos_hosts --faults N --seed S [--job I]: jobs over hosts that are disturbed, four faults each, and what
// became of them.
//
// The program knows nothing of Muster: each rank counts, and keeps how far it is in a file of its own. After
// each job: it succeeded if and only if it was let, all ranks of its last attempt have counted to the end,
// its exit code is the one that its report has, and no process is left on any host. Prints a line a job; ends
// with exit code 1 if any failed.
#include <cstdio>
#include <filesystem>
#include <fmt/core.h>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "common/base/text.h"
#include "tests/chaos/samples.h"
#include "tests/hosts/disturbance.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"

namespace muster::hosts {
namespace {

using namespace std::chrono_literals;

constexpr int kHosts = 5;
constexpr int kNodes = 4;
constexpr int kFaultsPerJob = 4;
constexpr auto kFaultPatience = 8s;  // for what is to be hit to be there
constexpr auto kEndLimit = 75s;      // of a job that nothing disturbs any more
constexpr auto kLeftLimit = 15s;     // the silence limit, the controller grace, the grace, and 5 s

// Counts to 30, and on until all faults were made: a job does not end before them.
constexpr const char* kCounter = R"(#!/bin/sh
mine=$1/rank_$RANK
n=$(cat $mine 2>/dev/null || echo 0)
echo ready at $n
while [ $n -lt 30 ] || [ ! -e $1/enough ]; do
  sleep 0.1
  n=$((n+1))
  echo $n >$mine.$$ && mv $mine.$$ $mine
done
echo $n >$1/done_${MUSTER_ATTEMPT}_$RANK
)";

struct Plan {
  enum class Size { kSpare, kElastic, kFixed } size = Size::kSpare;
  bool stdio = false;
  bool interrupted = false;  // at last, by Ctrl-C
  std::vector<Disturbance> faults;
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
  std::string text = fmt::format("{}, {}", kSizes[static_cast<int>(plan.size)], plan.stdio ? "stdio" : "tcp");
  for (const Disturbance& fault : plan.faults)
    text += fmt::format("; +{} ms {}", fault.pause.count(), text_of(fault));
  return text + (plan.interrupted ? "; Ctrl-C" : "");
}

class Trial {
 public:
  Trial(Lab& lab, const Plan& plan) : lab_(lab), plan_(plan), disturber_(lab, kNodes) {}
  // What was not as it should be.
  std::vector<std::string> run();
  int faults_made() const { return faults_made_; }
  const std::string& said() const { return said_; }

 private:
  void launch();
  bool ready() const;
  void wait(std::chrono::milliseconds time);
  void disturb();
  void check_end();
  void check_success(const nlohmann::json& report);
  void check_hosts();
  void expect(bool held, const std::string& what) {
    if (!held) violations_.push_back(what);
  }

  Lab& lab_;
  const Plan& plan_;
  Disturber disturber_;
  ScratchDirectory scratch_;  // seen from all hosts
  std::unique_ptr<LaunchRun> run_;
  std::vector<std::string> violations_;
  int faults_made_ = 0;
  std::string said_;
};

void Trial::launch() {
  std::ofstream(scratch_ / "counter") << kCounter;
  std::filesystem::permissions(scratch_ / "counter", std::filesystem::perms(0755));
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
                                                              scratch_.path()},
                                     lab_.environment(0), LAUNCH_PROGRAM,
                                     [this](const std::string&) { return lab_.head().fork(0); });
}

bool Trial::ready() const {
  const std::string out = run_->out();
  int count = 0;
  for (std::size_t at = out.find("ready at"); at != std::string::npos; at = out.find("ready at", at + 1))
    ++count;
  return count >= kNodes;
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
  // Faults that have not ended go on.
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
    const std::string name = fmt::format("done_{}_{}", last.at("attempt").get<int>(), rank);
    const auto counted = read_file(scratch_ / name, 64);
    const int steps = counted ? std::atoi(counted->c_str()) : 0;
    expect(steps >= 30, fmt::format("WRONG SUCCESS: rank {} counted to {}", rank, steps));
  }
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

struct Options {
  std::uint64_t faults = 40;
  std::uint64_t seed = std::random_device{}();
  std::optional<std::uint64_t> job;
};

bool read_options(const std::vector<std::string>& words, Options& options) {
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const auto number = i + 1 < words.size() ? parse_number<std::uint64_t>(words[i + 1]) : std::nullopt;
    if (!number) return false;
    if (words[i] == "--faults") {
      options.faults = *number;
    } else if (words[i] == "--seed") {
      options.seed = *number;
    } else if (words[i] == "--job") {
      options.job = *number;
    } else {
      return false;
    }
  }
  return options.faults > 0;
}

int run(const Options& options) {
  if (const std::string why = why_no_lab(); !why.empty()) {
    fmt::print("chaos_hosts: left out: {}\n", why);
    return 0;
  }
  fmt::print("chaos_hosts: {} faults, seed {}\n", options.faults, options.seed);
  Lab lab(kHosts);
  int made = 0, jobs = 0, failed = 0;
  const std::uint64_t first = options.job.value_or(0);
  const std::uint64_t last = options.job ? first + 1 : (options.faults + kFaultsPerJob - 1) / kFaultsPerJob;
  for (std::uint64_t i = first; i < last; ++i) {
    const auto left = static_cast<int>(options.faults - i * kFaultsPerJob);
    const Plan plan = make_plan(chaos::mix(options.seed * 1000003 + i), std::min(left, kFaultsPerJob));
    const TimePoint began = Clock::now();
    Trial trial(lab, plan);
    const std::vector<std::string> violations = trial.run();
    made += trial.faults_made();
    ++jobs;
    failed += violations.empty() ? 0 : 1;
    fmt::print("job {}: {} ({:.1f} s): {}\n", i, violations.empty() ? "passed" : "FAILED",
               std::chrono::duration<double>(Clock::now() - began).count(), text_of(plan));
    for (const std::string& violation : violations) fmt::print("  {}\n", violation);
    if (!violations.empty()) fmt::print("{}\n", trial.said());
    (void)std::fflush(stdout);
  }
  fmt::print("{} of {} jobs as they should be, {} faults made (seed {})\n", jobs - failed, jobs, made,
             options.seed);
  if (made == 0) fmt::print(stderr, "chaos_hosts: nothing was disturbed\n");
  return failed == 0 && made > 0 ? 0 : 1;
}

}  // namespace
}  // namespace muster::hosts

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  muster::hosts::Options options;
  if (!muster::hosts::read_options({argv + 1, argv + argc}, options)) {
    fmt::print(stderr, "usage: chaos_hosts [--faults N] [--seed S] [--job I]\n");
    return 2;
  }
  return muster::hosts::run(options);
}
