// Trains Fashion-MNIST over four hosts with two workers each, and one fault: the final parameters equal an
// undisturbed training's, bit for bit. Then prints a table with the cost of each fault.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "tests/hosts/lab.h"
#include "tests/invariants.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"
#include "tests/process/run_facts.h"

namespace muster::hosts {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

// Four nodes, and a fifth host that is a spare.
class TrainHosts : public testing::Test {
 public:
  static const std::string& rows() { return table_; }

 protected:
  void SetUp() override {
    if (const std::string why = why_no_lab(); !why.empty()) GTEST_SKIP() << why;
    lab_ = std::make_unique<Lab>(5);
  }
  void train(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"--hosts", "h0,h1,h2,h3,h4", "--nodes", "4", "--gpus-per-node", "1"};
    words.insert(words.end(), {"--device", "cpu", "--silence-limit", "2", "--controller-grace", "4"});
    words.insert(words.end(), {"--checkpoint-dir", lab_->shared() + "/checkpoints"});
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {TRAIN_PROGRAM, "--batch-size", "4", "--num-workers", "1"});
    words.insert(words.end(), {"--checkpoint-every", "20", "--max-steps", "100"});
    auto environment = lab_->environment(0);
    environment["OMP_NUM_THREADS"] = "1";
    began_ = unix_now();
    run_ = std::make_unique<LaunchRun>(words, environment, LAUNCH_PROGRAM,
                                       [this](const std::string&) { return lab_->head().fork(); });
  }
  // The result of a run without faults, made once.
  void ends_as_undisturbed() {
    const std::string hit = parameters_digest(*run_);
    if (undisturbed_.empty()) {
      run_.reset();
      lab_.reset();  // restores the environment before the next Lab changes it
      lab_ = std::make_unique<Lab>(5);
      train();
      ASSERT_EQ(run_->exit_code(), 0) << run_->err();
      EXPECT_EQ(run_->report()["restarts"], 0) << run_->err();
      undisturbed_ = parameters_digest(*run_);
      ASSERT_EQ(undisturbed_.size(), 32U) << run_->out();
    }
    invariants::ends_as_undisturbed(hit, undisturbed_);
  }
  // The processes of a host that was cut off end by themselves.
  void nothing_is_left() const {
    for (int i = 0; i < lab_->size(); ++i) {
      EXPECT_TRUE(eventually([&] { return lab_->processes(i).empty(); }, 15s)) << "on h" << i;
    }
  }
  static void add_row(const std::string& what, std::optional<double> told, std::optional<double> again,
                      const json& repeated) {
    const auto text = [](std::optional<double> seconds) {
      return seconds ? fmt::format("{:.2f} s", *seconds) : "-";
    };
    table_ += fmt::format("| {} | {} | {} | {} |\n", what, text(told), text(again),
                          repeated.is_null() ? "-" : repeated.dump());
  }
  // The fault strikes between two checkpoints.
  void wait_for_steps_that_no_checkpoint_has() const {
    ASSERT_TRUE(eventually([&] { return event_time(*run_, {"committed"}).has_value(); }, 40s)) << run_->err();
    std::this_thread::sleep_for(500ms);
  }

  std::unique_ptr<Lab> lab_;
  std::unique_ptr<LaunchRun> run_;
  double began_ = 0;

 private:
  static inline std::string undisturbed_, table_;
};

class Table : public testing::Environment {
 public:
  void TearDown() override {
    fmt::print("\n| what happens | noticed after | trains again after | steps repeated |\n{}{}\n",
               "| --- | --- | --- | --- |\n", TrainHosts::rows());
  }
};

const auto* const kTable = testing::AddGlobalTestEnvironment(new Table);

void kill_oldest(const std::vector<pid_t>& processes) {
  ASSERT_FALSE(processes.empty());
  kill(std::ranges::min(processes), SIGKILL);
}
void kill_newest(const std::vector<pid_t>& processes) {
  ASSERT_FALSE(processes.empty());
  kill(std::ranges::max(processes), SIGKILL);
}

struct Fault {
  const char* name;
  const char* what;
  void (*strike)(Lab& lab);
  int node;  // the node that is lost, or whose worker is killed
  double noticed_within_seconds;
};

class TrainHostsThrough : public TrainHosts, public testing::WithParamInterface<Fault> {};

TEST_P(TrainHostsThrough, CostsStepsButNoBitOfTheResult) {
  const Fault& fault = GetParam();
  train();
  ASSERT_NO_FATAL_FAILURE(wait_for_steps_that_no_checkpoint_has());
  const double struck = unix_now();
  fault.strike(*lab_);
  ASSERT_EQ(run_->exit_code(), 0) << run_->err();
  const json report = run_->report();
  EXPECT_EQ(report["restarts"], 1) << run_->err();
  ASSERT_EQ(report["attempts"].size(), 2U);
  EXPECT_EQ(report["attempts"][0]["culprit"]["node"], fault.node) << run_->err();
  EXPECT_EQ(report["attempts"][1]["world_size"], 4);
  EXPECT_GE(report["attempts"][1]["resumed_step"], 20);
  const auto noticed = event_time(*run_, {"worker_exited", "node_lost"}, struck);
  ASSERT_TRUE(noticed);
  EXPECT_LT(*noticed - struck, fault.noticed_within_seconds);
  const auto resumed = event_time(*run_, {"resumed"}, *noticed);
  ASSERT_TRUE(resumed);
  add_row(fault.what, *noticed - struck, *resumed - *noticed, report["attempts"][1]["repeated_steps"]);
  lab_->heal();
  nothing_is_left();
  ends_as_undisturbed();
}

// The newest process of the program is a rank; the oldest is the template. The second of two
// agent processes is the guardian.
INSTANTIATE_TEST_SUITE_P(
    Faults, TrainHostsThrough,
    testing::Values(Fault{"AKilledWorker", "a worker is killed",
                          [](Lab& lab) { kill_newest(lab.processes(2, "train_fashion_m")); }, 2, 2},
                    Fault{"AKilledAgent", "an agent is killed",
                          [](Lab& lab) { kill_oldest(lab.processes(3, "muster-agent")); }, 3, 2},
                    Fault{"AHostThatIsCutOff", "a host is cut off", [](Lab& lab) { lab.isolate(1); }, 1, 4},
                    Fault{"AHostThatIsNotHeard", "a host hears the others, and they do not hear it",
                          [](Lab& lab) { lab.isolate_one_way(1); }, 1, 4},
                    Fault{"ALinkThatIsAwayForTooLong", "a link is away for 4 s, and comes back",
                          [](Lab& lab) { lab.flap(2, 4s, 1s, 1); }, 2, 4}),
    [](const auto& fault) { return fault.param.name; });

// TCP repeats lost packets after 0.2, 0.6, 1.4 and 3 s, so a link that is down twice for 0.7 s may be silent
// for 3 s.
TEST_F(TrainHosts, ALinkThatFlapsBelowTheLimitOfSilenceCostsNothing) {
  train({"--silence-limit", "5", "--controller-grace", "10"});
  ASSERT_NO_FATAL_FAILURE(wait_for_steps_that_no_checkpoint_has());
  lab_->flap(2, 700ms, 800ms, 2);
  ASSERT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_EQ(run_->report()["restarts"], 0) << run_->err();
  add_row("a link is away for 0.7 s, twice (`--silence-limit 5`)", {}, {}, 0);
  nothing_is_left();
  ends_as_undisturbed();
}

TEST_F(TrainHosts, AHostThatNeverAnswersAtTheStartIsReplacedByTheSpare) {
  lab_->isolate(1);
  train({"--connect-timeout", "2", "--start-timeout", "3"});
  ASSERT_EQ(run_->exit_code(), 0) << run_->err();
  const json report = run_->report();
  EXPECT_EQ(report["attempts"].back()["world_size"], 4);
  const auto begun = event_time(*run_, {"attempt_begun"}, began_);
  const auto noticed = event_time(*run_, {"node_lost"}, began_);
  ASSERT_TRUE(begun);
  add_row("a host never answers at the start (`--connect-timeout 2`)",
          noticed ? std::optional(*noticed - began_) : std::nullopt, *begun - noticed.value_or(began_), 0);
  lab_->heal();
  nothing_is_left();
  ends_as_undisturbed();
}

}  // namespace
}  // namespace muster::hosts
