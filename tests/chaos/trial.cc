#include "tests/chaos/trial.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "common/base/text.h"
#include "common/wire/digest.h"
#include "tests/chaos/fault.h"
#include "tests/chaos/ledger.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"

namespace muster::chaos {

namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kStepCount = 24;
constexpr std::uint64_t kSaveEvery = 4;
constexpr int kStepMs = 4;
constexpr auto kGrace = 1s;
constexpr auto kControllerGrace = 2s;
// The limit of G1, with a margin for a busy machine.
constexpr auto kEndLimit = kGrace + 5s;
constexpr auto kFaultLimit = 20s;

std::string worker_program(const TrialPlan& plan) {
  return plan.torch ? CHAOS_TORCH_WORKER : CHAOS_WORKER;
}

std::string text_of(const std::vector<Digest128>& digests) {
  std::string text;
  for (const Digest128 digest : digests) text += muster::text_of(digest) + " ";
  return text;
}

std::string digests_of(const std::string& bytes, std::uint64_t chunk_bytes) {
  std::vector<Digest128> digests;
  for (std::uint64_t at = 0; at < bytes.size(); at += chunk_bytes)
    digests.push_back(digest_of(std::string_view(bytes).substr(at, chunk_bytes)));
  return text_of(digests);
}

// G3: a checkpoint with a manifest is complete.
void check_checkpoints(const CheckpointDirectory& checkpoints) {
  const auto committed = checkpoints.committed();
  ASSERT_TRUE(committed) << committed.error().message();
  for (const CheckpointId& id : *committed) {
    const auto text = read_file(checkpoints.manifest_path(id), 1 << 20);
    const auto manifest = text ? parse_manifest(*text) : std::unexpected(text.error());
    ASSERT_TRUE(manifest) << manifest.error().message();
    for (const ManifestFile& file : manifest->files) {
      const auto bytes = read_file(checkpoints.path_of(id) + "/" + file.name, 1 << 28);
      invariants::is_as_committed(file.name, bytes ? digests_of(*bytes, file.chunk_bytes) : "missing",
                                  text_of(file.chunks));
    }
  }
}

class Trial {
 public:
  explicit Trial(const TrialPlan& plan) : plan_(plan), random_(plan.seed) {}
  TrialResult run();

 private:
  struct Injected {
    Fault* fault;
    Mark mark;
    TimePoint at;
  };

  void set_up();
  void launch();
  void hit(std::size_t index);
  std::optional<Mark> mark_of(std::size_t index) const;
  void go(std::size_t index) const { std::ofstream(stage_.scratch / fmt::format("go.{}", index)) << ""; }
  void wait_until_empty();
  void judge(int exit_code);
  void judge_culprits(const nlohmann::json& report);
  void replay_journals() const;
  nlohmann::json report() const;
  Ledger ledger() const { return Ledger(stage_.scratch.path().string()); }

  const TrialPlan& plan_;
  std::mt19937_64 random_;
  Stage stage_;
  std::vector<std::unique_ptr<Fault>> faults_;
  std::vector<Injected> injected_;
  std::unique_ptr<LaunchRun> run_;
  TrialResult result_;
};

// The final state of a run without faults. The plain worker's is the same at any world size.
std::string undisturbed_hash(const TrialPlan& plan) {
  static std::map<int, std::string> hashes;  // by world size; 0: the plain worker
  std::string& hash = hashes[plan.torch ? plan.world_size() : 0];
  if (!hash.empty()) return hash;
  const ScratchDirectory scratch;
  LaunchRun run({"--quiet", "--gpus-per-node", std::to_string(plan.world_size()), "--checkpoint-dir",
                 scratch / "checkpoints", worker_program(plan), scratch.path(), std::to_string(kStepCount),
                 std::to_string(kSaveEvery), "0"});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  return hash = Ledger(scratch.path()).hash();
}

void Trial::set_up() {
  faults_.push_back(fault_kinds().at(plan_.fault).make(random_));
  if (plan_.second) faults_.push_back(fault_kinds().at(*plan_.second).make(random_));
  for (const auto& fault : faults_) fault->setup(stage_);
}

void Trial::launch() {
  const std::string nodes =
      fmt::format("{}{}", plan_.size == TrialPlan::Size::kElastic ? "1:" : "", plan_.nodes);
  std::vector<std::string> words = {"--quiet",
                                    "--nodes",
                                    nodes,
                                    "--gpus-per-node",
                                    std::to_string(plan_.workers_per_node),
                                    "--max-restarts",
                                    plan_.restarts ? "3" : "0",
                                    "--grace",
                                    "1",
                                    "--controller-grace",
                                    "2",
                                    "--control",
                                    plan_.tcp ? "tcp" : "socket",
                                    "--log-dir",
                                    stage_.logs,
                                    "--checkpoint-dir",
                                    stage_.checkpoints};
  if (plan_.size == TrialPlan::Size::kSpare) words.insert(words.end(), {"--spare-nodes", "1"});
  words.insert(words.end(), stage_.flags.begin(), stage_.flags.end());
  words.insert(words.end(), {worker_program(plan_), stage_.scratch.path(), std::to_string(kStepCount),
                             std::to_string(kSaveEvery), std::to_string(kStepMs)});
  words.push_back(fmt::format("{}:{}:{}:{}", plan_.victim, plan_.step, plan_.where, faults_[0]->what()));
  if (plan_.second)
    words.push_back(
        fmt::format("{}:{}:{}:{}", plan_.second_victim, 1, plan_.second_where, faults_[1]->what()));
  if (stage_.memory) stage_.memory->enter();
  run_ = std::make_unique<LaunchRun>(words);
  if (stage_.memory) stage_.memory->leave();
  stage_.launcher = run_->pid();
  stage_.printed = [this] { return run_->out() + run_->err(); };
}

std::optional<Mark> Trial::mark_of(std::size_t index) const {
  const auto text = read_file(stage_.scratch / fmt::format("moment.{}", index), 4096);
  if (!text) return std::nullopt;
  const auto words = split(*text, ' ');
  const auto number = [&](std::size_t i) { return parse_number<int>(words.at(i)).value_or(0); };
  return Mark{.rank = index == 0 ? plan_.victim : plan_.second_victim,
              .worker = number(0),
              .agent = number(1),
              .attempt = static_cast<std::uint64_t>(number(2)),
              .node = number(3)};
}

void Trial::hit(std::size_t index) {
  std::optional<Mark> mark;
  const bool came = eventually(
      [&] { return (mark = mark_of(index)).has_value() || !is_running(run_->pid()); }, kFaultLimit);
  if (!came || !mark) {
    ADD_FAILURE() << "moment " << index << " never came\n" << run_->err();
    return;
  }
  Fault& fault = *faults_[index];
  injected_.push_back({&fault, *mark, Clock::now()});
  fault.inject(stage_, *mark);
  go(index);
  EXPECT_TRUE(eventually([&] { return fault.propagated(stage_, *mark); }, kFaultLimit))
      << "the fault did not take hold\n"
      << run_->err();
  fault.recover(stage_);
}

void Trial::wait_until_empty() {
  eventually([&] { return run_->descendants().empty(); }, kEndLimit);
  result_.leftover_count = static_cast<int>(run_->descendants().size());
  invariants::nothing_is_left(result_.leftover_count);
}

nlohmann::json Trial::report() const {
  // The newest job.
  std::filesystem::path newest;
  for (const auto& entry : std::filesystem::directory_iterator(stage_.logs))
    newest = std::max(newest, entry.path());
  const auto text = read_file(newest / "report.json", 1 << 24);
  return text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
}

invariants::Culprit culprit_of(const nlohmann::json& attempt) {
  invariants::Culprit culprit;
  const auto& blamed = attempt.at("culprit");
  if (blamed.is_null()) return culprit;
  if (blamed.at("rank").is_number()) culprit.rank = blamed.at("rank").get<int>();
  if (blamed.at("node").is_number()) culprit.node = blamed.at("node").get<int>();
  return culprit;
}

void Trial::judge_culprits(const nlohmann::json& report) {
  const auto attempt_of = [&](std::uint64_t number) -> const nlohmann::json* {
    for (const auto& attempt : report.at("attempts")) {
      if (attempt.at("attempt") == number) return &attempt;
    }
    return nullptr;
  };
  for (const Injected& injected : injected_) {
    const Truth truth = injected.fault->truth(injected.mark);
    if (!truth.culprit) continue;
    const nlohmann::json* attempt = attempt_of(injected.mark.attempt);
    ASSERT_NE(attempt, nullptr) << "G6: the report has no attempt " << injected.mark.attempt << report.dump();
    const invariants::Culprit blamed = culprit_of(*attempt);
    invariants::blames(blamed, *truth.culprit);
    if (blamed != *truth.culprit) ADD_FAILURE() << "the verdict blames the wrong one: " << attempt->dump();
    const auto& culprit = attempt->at("culprit");
    if (culprit.contains("class"))
      EXPECT_EQ(culprit.at("class"), truth.class_name) << "G6: the class of the cause";
    if (injected_.size() == 1) result_.culprit_right = blamed == *truth.culprit;
  }
}

// Includes journals of killed launchers: they end in the middle, and may not exist after an early kill.
void Trial::replay_journals() const {
  const bool may_have_none = !injected_.empty() && injected_.front().fault->ends_launch();
  for (const auto& job : std::filesystem::directory_iterator(stage_.logs)) {
    if (may_have_none && !std::filesystem::exists(job.path() / "journal")) continue;
    LaunchRun replay({"replay", job.path()});
    EXPECT_EQ(replay.exit_code(), 0) << replay.out() << replay.err();
    EXPECT_THAT(replay.out(), testing::HasSubstr("decisions: the same"));
  }
}

void Trial::judge(int exit_code) {
  const Ledger ledger = this->ledger();
  const int finished = ledger.finished_count();
  const int world_size = plan_.size == TrialPlan::Size::kElastic
                             ? std::max(ledger.rank_count(), plan_.workers_per_node)
                             : plan_.world_size();
  invariants::success_is_earned(exit_code, world_size, finished);
  result_.false_success = exit_code == 0 && finished != world_size;
  const CheckpointDirectory checkpoints(stage_.checkpoints);
  check_checkpoints(checkpoints);
  // The runtime's loader knows its samples; the plain worker logs them.
  ledger.check(checkpoints, plan_.torch ? 0 : kStepCount);
  replay_journals();
  if (injected_.empty()) return;
  const Injected& first = injected_.front();
  const Truth truth = first.fault->truth(first.mark);
  const bool ends = truth.culprit && !plan_.restarts && !first.fault->ends_launch();
  if (ends && truth.exit_code) EXPECT_EQ(exit_code, *truth.exit_code) << run_->err();
  if (ends && !truth.exit_code) EXPECT_NE(exit_code, 0) << run_->err();
  if (!ends) {
    EXPECT_EQ(exit_code, 0) << run_->err();
    invariants::ends_as_undisturbed(ledger.hash(), undisturbed_hash(plan_));
  }
  if (const auto at = ledger.stopped(first.mark.attempt, first.mark.rank)) result_.detection = *at - first.at;
  if (const auto at = ledger.resumed_after(first.mark.attempt)) result_.recovery = *at - first.at;
  if (result_.recovery) invariants::makes_progress(true, *result_.recovery, kFaultLimit);
  const nlohmann::json report = this->report();
  if (report.is_object()) {
    judge_culprits(report);
    if (!truth.culprit && !first.fault->ends_launch())
      EXPECT_EQ(report.at("restarts"), 0) << "a restart for nothing";
  } else {
    EXPECT_TRUE(!truth.culprit) << "G6: the report is missing";
  }
}

TrialResult Trial::run() {
  set_up();
  launch();
  for (std::size_t i = 0; i < faults_.size(); ++i) hit(i);
  int exit_code = run_->exit_code();
  const bool ended_with_it = !injected_.empty() && injected_.front().fault->ends_launch();
  if (ended_with_it) {
    EXPECT_EQ(exit_code, 128 + SIGKILL);
    eventually([&] { return run_->descendants().empty(); }, kControllerGrace);
    wait_until_empty();
    launch();
    exit_code = run_->exit_code();
  }
  wait_until_empty();
  judge(exit_code);
  for (const auto& fault : faults_) fault->cleanup(stage_);
  return result_;
}

}  // namespace

std::string TrialPlan::why_not() const {
  if (torch && std::string_view(CHAOS_TORCH_WORKER).empty()) return "it needs LibTorch";
  const FaultKind& kind = fault_kinds()[fault];
  return kind.why_not.empty() ? "" : fmt::format("{} cannot be made here: {}", kind.name, kind.why_not);
}

std::string TrialPlan::text() const {
  std::string text = fmt::format("{} of rank {} at {} {}", fault_kinds().at(fault).name, victim, where,
                                 where == "start" ? "" : std::to_string(step));
  if (second)
    text += fmt::format(", then {} of rank {} at {}", fault_kinds().at(*second).name, second_victim,
                        second_where);
  return text +
         fmt::format("; {} x {} ranks, {}{}{}", nodes, workers_per_node, tcp ? "tcp" : "socket",
                     restarts ? "" : ", no restart", torch ? ", LibTorch" : "") +
         (size == Size::kSpare     ? ", a spare node"
          : size == Size::kElastic ? ", may shrink"
                                   : "");
}

TrialPlan make_plan(std::uint64_t seed, std::size_t fault) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::uint64_t count) { return random() % count; };
  TrialPlan plan;
  plan.seed = seed;
  plan.fault = fault;
  plan.nodes = 1 + static_cast<int>(pick(2));
  plan.workers_per_node = plan.nodes == 2 ? 1 + static_cast<int>(pick(2)) : 2 + static_cast<int>(pick(3));
  plan.victim = static_cast<int>(pick(static_cast<std::uint64_t>(plan.world_size())));
  plan.second_victim = static_cast<int>(pick(static_cast<std::uint64_t>(plan.world_size())));
  plan.step = 1 + pick(kStepCount - kSaveEvery - 1);
  constexpr const char* kPlaces[] = {"step", "step", "save", "start"};
  plan.where = kPlaces[pick(std::size(kPlaces))];
  plan.second_where = kPlaces[pick(std::size(kPlaces))];
  plan.tcp = pick(3) == 0;
  plan.restarts = pick(4) != 0;
  std::vector<std::size_t> seconds;
  for (std::size_t i = 0; i < fault_kinds().size(); ++i) {
    if (fault_kinds()[i].can_be_second) seconds.push_back(i);
  }
  const std::size_t second = seconds[pick(seconds.size())];
  if (fault_kinds()[fault].can_be_second && plan.restarts && pick(4) == 0) plan.second = second;
  // Each start of LibTorch takes a second.
  plan.torch = fault_kinds()[fault].can_be_second && pick(6) == 0;
  if (plan.torch) {
    plan.workers_per_node = plan.nodes == 2 ? 1 : 2;
    plan.victim %= 2;
    plan.second_victim %= 2;
  }
  if (fault_kinds()[fault].name.starts_with("agent") && plan.nodes == 2 && !plan.torch)
    plan.size = static_cast<TrialPlan::Size>(pick(3));
  if (plan.size == TrialPlan::Size::kElastic)
    plan.second_victim %= plan.workers_per_node;  // the job may have only one node
  // A full disk without a write to it is not a fault.
  if (fault_kinds()[fault].name == "disk full") plan.where = "step";
  return plan;
}

TrialResult run_trial(const TrialPlan& plan) {
  undisturbed_hash(plan);
  testing::TestPartResultArray parts;
  TrialResult result;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &parts);
    result = Trial(plan).run();
  }
  for (int i = 0; i < parts.size(); ++i) {
    if (parts.GetTestPartResult(i).failed())
      result.violations.emplace_back(parts.GetTestPartResult(i).summary());
  }
  return result;
}

}  // namespace muster::chaos
