// The contract of a lineage, for both implementations: the one in a checkpoint directory, and the
// simulator's.
#include <algorithm>
#include <array>
#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "common/base/file.h"
#include "common/checkpoint/directory.h"
#include "launcher/io/local_lineage.h"
#include "tests/scratch_directory.h"
#include "tests/simulation/lineage.h"

namespace muster::simulation {
namespace {

using namespace std::chrono_literals;
using launcher::AttemptBegun;
using launcher::AttemptDenied;
using launcher::BeginAttempt;
using launcher::CheckpointFound;
using launcher::LookForCheckpoint;
using launcher::Question;
using By = AttemptDenied::By;

// A checkpoint directory, the launch under test, and another launch.
class Lineages {
 public:
  virtual ~Lineages() = default;
  virtual launcher::Lineage& own() = 0;
  // The other launch takes the directory over and stays alive.
  virtual Attempt other_begins() = 0;
  virtual void other_ends() = 0;
  virtual void commit(Attempt attempt, std::uint64_t step) = 0;
  virtual void disk_fails() = 0;
  // Runs until all answers have arrived.
  virtual void settle() = 0;
};

class LocalLineages final : public Lineages {
 public:
  LocalLineages() = default;
  LocalLineages(const LocalLineages&) = delete;
  LocalLineages& operator=(const LocalLineages&) = delete;
  ~LocalLineages() override { other_ends(); }

  launcher::Lineage& own() override { return own_; }
  // A real process, since the lineage asks the kernel whether it lives.
  Attempt other_begins() override {
    std::array<int, 2> told{};
    std::array<int, 2> life{};
    EXPECT_EQ(pipe2(told.data(), O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(life.data(), O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) be_other(told[1], life);
    close(told[1]);
    close(life[0]);
    life_.reset(life[1]);
    Attempt begun;
    EXPECT_EQ(read(told[0], &begun, sizeof begun), static_cast<ssize_t>(sizeof begun));
    close(told[0]);
    return begun;
  }
  void other_ends() override {
    if (pid_ == -1) return;
    life_.reset();
    waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  void commit(Attempt attempt, std::uint64_t step) override {
    const CheckpointDirectory directory(path_);
    const CheckpointManifest manifest{
        .id = {.step = step, .attempt = attempt},
        .job = "train",
        .world_size = 1,
        .files = {{.name = rank_file_name(0), .size_bytes = 3, .chunks = {digest_of("abc")}}}};
    ASSERT_TRUE(make_directories_durably(directory.path_of(manifest.id)));
    ASSERT_TRUE(write_file_durably(directory.manifest_path(manifest.id), encode_manifest(manifest)));
    ASSERT_TRUE(directory.read_manifest(manifest.id));
  }
  void disk_fails() override {
    std::filesystem::remove_all(path_);
    ASSERT_TRUE(write_file_durably(path_, "not a directory"));
  }
  void settle() override {}

 private:
  [[noreturn]] void be_other(int told, const std::array<int, 2>& life) const {
    close(life[1]);
    launcher::LocalLineage(path_, "other")
        .begin_attempt(
            {.question = Question(1), .last = Attempt(), .take_over = true},
            [told](const AttemptBegun& begun) { (void)!write(told, &begun.attempt, sizeof begun.attempt); },
            [](const AttemptDenied&) {});
    char end = 0;
    (void)!read(life[0], &end, 1);
    _exit(0);
  }

  ScratchDirectory scratch_;
  std::string path_ = scratch_ / "checkpoints";
  launcher::LocalLineage own_{path_, "train"};
  pid_t pid_ = -1;
  UniqueFd life_;  // the other launch's process has the other end
};

class SimulatedLineages final : public Lineages {
 public:
  SimulatedLineages() {
    world_.launcher_lives = [this](int launch) { return launch == kOwn || other_lives_; };
  }
  SimulatedLineages(const SimulatedLineages&) = delete;
  SimulatedLineages& operator=(const SimulatedLineages&) = delete;

  launcher::Lineage& own() override { return own_; }
  Attempt other_begins() override {
    other_lives_ = true;
    return world_.directory.begin(kOther).attempt;
  }
  void other_ends() override { other_lives_ = false; }
  void commit(Attempt attempt, std::uint64_t step) override {
    ASSERT_TRUE(world_.directory.commit(attempt, step));
  }
  void disk_fails() override { own_.fail(1); }
  void settle() override {
    while (world_.timeline.step(world_.began + 1min)) {
    }
  }

 private:
  static constexpr int kOwn = 1;
  static constexpr int kOther = 2;
  World world_{Script{}, 1};
  MachineClock clock_{world_.timeline, 0s, 0};
  std::shared_ptr<Program> program_ = std::make_shared<Program>(world_.timeline, clock_, 1);
  SimulatedLineage own_{world_, kOwn, program_};
  bool other_lives_ = false;
};

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Lineages>()> make;
};

class LineageContract : public testing::TestWithParam<Kind> {
 protected:
  struct Answer {
    std::optional<AttemptBegun> begun;
    std::optional<AttemptDenied> denied;
  };
  Answer begin(Attempt last = {}, bool take_over = false) {
    Answer answer;
    const Question question(++question_count_);
    lineages_->own().begin_attempt(
        {.question = question, .last = last, .take_over = take_over},
        [&](const AttemptBegun& begun) { answer.begun = begun; },
        [&](const AttemptDenied& denied) { answer.denied = denied; });
    lineages_->settle();
    EXPECT_NE(answer.begun.has_value(), answer.denied.has_value()) << "one answer";
    EXPECT_EQ(answer.begun ? answer.begun->question : answer.denied->question, question);
    return answer;
  }
  // Begins an attempt that must be denied.
  std::optional<By> denied(Attempt last, bool take_over) {
    const auto denied = begin(last, take_over).denied;
    if (denied) EXPECT_FALSE(denied->why.message().empty());
    return denied ? std::optional(denied->by) : std::nullopt;
  }
  std::optional<std::int64_t> newest_commit(Attempt attempt) {
    std::optional<CheckpointFound> answer;
    const Question question(++question_count_);
    lineages_->own().newest_commit({.question = question, .attempt = attempt},
                                   [&](const CheckpointFound& found) { answer = found; });
    lineages_->settle();
    EXPECT_TRUE(answer && answer->question == question);
    return answer ? answer->step : std::nullopt;
  }

  std::unique_ptr<Lineages> lineages_ = GetParam().make();
  std::uint64_t question_count_ = 0;
};

TEST_P(LineageContract, NumbersAreTakenOnceAndGoOn) {
  const auto first = begin().begun;
  ASSERT_TRUE(first);
  EXPECT_EQ(first->attempt, Attempt(1));
  EXPECT_FALSE(first->resume_step) << "nothing was committed";
  for (std::uint64_t last = 1; last < 5; ++last) {
    const auto next = begin(Attempt(last), /*take_over=*/true).begun;
    ASSERT_TRUE(next);
    EXPECT_EQ(next->attempt, Attempt(last + 1));
  }
}

TEST_P(LineageContract, AnAttemptResumesFromTheNewestCommitThatLeadsToIt) {
  begin();
  lineages_->commit(Attempt(1), 10);
  lineages_->commit(Attempt(1), 20);
  EXPECT_EQ(begin(Attempt(1)).begun->resume_step, 20U);
  EXPECT_EQ(begin(Attempt(2)).begun->resume_step, 20U) << "the second has committed nothing";
  lineages_->commit(Attempt(3), 15);
  EXPECT_EQ(begin(Attempt(3)).begun->resume_step, 15U) << "what it began anew";
}

TEST_P(LineageContract, TheNewestCommitIsThatOfTheAttemptWhichIsAskedFor) {
  begin();
  EXPECT_FALSE(newest_commit(Attempt(1)));
  lineages_->commit(Attempt(1), 10);
  lineages_->commit(Attempt(1), 20);
  begin(Attempt(1));
  EXPECT_EQ(newest_commit(Attempt(1)), 20);
  EXPECT_FALSE(newest_commit(Attempt(2)));
}

// Even with `take_over`: its own successor has begun.
TEST_P(LineageContract, ALaunchThatWasTakenOverFromBeginsNothingMore) {
  begin();
  EXPECT_EQ(lineages_->other_begins(), Attempt(2));
  EXPECT_EQ(denied(Attempt(1), /*take_over=*/true), By::kNewerLaunch);
  lineages_->other_ends();
  EXPECT_EQ(denied(Attempt(1), /*take_over=*/true), By::kNewerLaunch) << "nor when that has ended";
}

TEST_P(LineageContract, ALivingLaunchIsOnlyTakenOverFromByWhoMayAndALaterNumberIsTaken) {
  EXPECT_EQ(lineages_->other_begins(), Attempt(1));
  EXPECT_EQ(denied(Attempt(), /*take_over=*/false), By::kLivingLaunch);
  const auto begun = begin(Attempt(), /*take_over=*/true).begun;
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->attempt, Attempt(2)) << "who was denied has taken no number";
}

TEST_P(LineageContract, ALaunchThatHasEndedIsFollowed) {
  EXPECT_EQ(lineages_->other_begins(), Attempt(1));
  lineages_->commit(Attempt(1), 30);
  lineages_->other_ends();
  const auto begun = begin().begun;
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->attempt, Attempt(2));
  EXPECT_EQ(begun->resume_step, 30U);
}

TEST_P(LineageContract, ADiskThatFailsIsNobodysFence) {
  begin();
  lineages_->disk_fails();
  EXPECT_EQ(denied(Attempt(1), /*take_over=*/true), By::kDisk);
}

TEST_P(LineageContract, AnswersComeInTheOrderOfTheQuestions) {
  begin();
  std::vector<int> answers;
  for (int i = 0; i < 20; ++i)
    lineages_->own().newest_commit({.question = Question(100), .attempt = Attempt(1)},
                                   [&answers, i](const CheckpointFound&) { answers.push_back(i); });
  lineages_->settle();
  EXPECT_EQ(answers.size(), 20U);
  EXPECT_TRUE(std::ranges::is_sorted(answers));
}

INSTANTIATE_TEST_SUITE_P(
    Of, LineageContract,
    testing::Values(Kind{"TheCheckpointDirectory", [] { return std::make_unique<LocalLineages>(); }},
                    Kind{"TheSimulator", [] { return std::make_unique<SimulatedLineages>(); }}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace muster::simulation
