// When checkpoints are saved, which ones are kept, and which directories are refused.
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/checkpoint/directory.h"
#include "tests/require.h"
#include "tests/train/checkpoint_fixture.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class CheckpointOptionsTest : public CheckpointTest {
 protected:
  std::vector<std::uint64_t> steps_in(const std::string& directory) {
    std::vector<std::uint64_t> steps;
    for (const CheckpointId& id : CheckpointDirectory(directory).committed().value())
      steps.push_back(id.step);
    return steps;
  }
};

// On several ranks that communicate.
class CheckpointOptionsOnRanks : public CheckpointOptionsTest {};

TEST_F(CheckpointOptionsOnRanks, AllRanksSaveAtTheStepsThatRank0sClockPicks) {
  for (const bool automatic : {false, true}) {
    const std::string directory = scratch_ / (automatic ? "auto" : "time");
    spawn(
        [&](Job& job) {
          alarm(60);
          double value = 0;
          TrainState state;
          state.add("value", value);
          CheckpointerOptions options{.every = 0, .directory = directory, .keep = 100};
          options.every_auto = automatic;
          if (automatic) options.mean_time_to_failure = std::chrono::seconds(1);  // less than any save costs
          if (!automatic) options.every_time = milliseconds(50);
          Checkpointer checkpoints(job, options);
          for (int saved = 0; saved < 3;) {
            checkpoints.step(state);
            require(checkpoints.wait(), "a save");
            saved = all_reduce(job, job.rank() == 0 ? static_cast<int>(steps_in(directory).size()) : 0);
          }
        },
        2);
    EXPECT_GE(steps_in(directory).size(), 3U);
  }
}

TEST_F(CheckpointOptionsTest, SavesByTimeNotBeforeTheInterval) {
  const Job job = make_job();
  double value = 0;
  TrainState state;
  state.add("value", value);
  Checkpointer checkpoints(job, {.every = 0, .directory = directory_, .every_time = std::chrono::hours(1)});
  while (checkpoints.steps() < 100) checkpoints.step(state);
  EXPECT_TRUE(checkpoints.wait());
  EXPECT_TRUE(steps_in(directory_).empty());
}

TEST_F(CheckpointOptionsOnRanks, SavingByTimeAllRanksAreFencedAtOneStep) {
  spawn(
      [&](Job& job) {
        alarm(60);  // less than the others' patience
        double value = 0;
        TrainState state;
        state.add("value", value);
        Checkpointer checkpoints(job, {.every = 0, .directory = directory_, .every_time = milliseconds(100)});
        checkpoints.step(state);
        require(checkpoints.wait(), "a save");
        job.barrier();
        if (job.rank() == 0)
          require(CheckpointDirectory(directory_).begin_attempt("other").has_value(), "a newer attempt");
        job.barrier();
        for (bool fenced = false; !fenced;) {
          try {
            checkpoints.step(state);
          } catch (const FencedError&) {
            fenced = true;
          }
        }
        const auto steps = static_cast<double>(checkpoints.steps());
        require(all_reduce(job, steps) == 2 * steps, "one step on both");
      },
      2);
}

TEST_F(CheckpointOptionsTest, KeepsNewestPeriodicBestAndPinned) {
  CheckpointerOptions options{.keep = 2};
  options.keep_every = 4;
  options.keep_best = 1;
  options.best_by = "loss";
  options.best = CheckpointerOptions::Best::kLeast;
  {
    Training training(directory_, make_adam, options);
    for (int step = 1; step <= 9; ++step) {
      training.train(1);
      training.checkpoints.report("loss", step == 3 ? 0.5 : step == 9 ? NAN : 1.0 + step);
      ASSERT_TRUE(training.checkpoints.save(training.state));
      if (step == 1) write_bytes(directory_ + "/step-1.attempt-1/pinned", "");
    }
  }
  EXPECT_THAT(steps_in(directory_), ElementsAre(1, 3, 4, 8, 9));
  const auto manifest = CheckpointDirectory(directory_).read_manifest({.step = 3, .attempt = Attempt(1)});
  EXPECT_EQ(manifest.value().metrics.at("loss"), 0.5);
  const auto last = CheckpointDirectory(directory_).read_manifest({.step = 9, .attempt = Attempt(1)});
  EXPECT_THAT(last.value().metrics, IsEmpty()) << "NaN cannot be compared";
}

TEST_F(CheckpointOptionsTest, InvalidOptionsAreRefusedByName) {
  const auto refusal = [&](const auto& change) {
    CheckpointerOptions options{.directory = directory_};
    change(options);
    try {
      const Checkpointer checkpoints(make_job(), options);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_THAT(refusal([](auto& o) { o.every = 0; }), HasSubstr("every = 0 must be at least 1"));
  EXPECT_THAT(refusal([](auto& o) { o.keep_best = 1; }), HasSubstr("keep_best needs the name of a metric"));
  EXPECT_THAT(refusal([](auto& o) { o.keep_every = -1; }), HasSubstr("keep_every = -1"));
  EXPECT_THAT(refusal([](auto& o) { o.memory_every = -1; }), HasSubstr("memory_every = -1"));
  EXPECT_THAT(refusal([](auto& o) { o.staging_bytes = 0; }), HasSubstr("staging_bytes = 0"));
  EXPECT_THAT(refusal([](auto& o) {
                o.every_auto = true;
                o.every_time = milliseconds(1);
              }),
              HasSubstr("exclude each other"));
  EXPECT_EQ(refusal([](auto&) {}), "taken");
}

TEST_F(CheckpointOptionsTest, ASecondWriterOfADirectoryIsRefusedWhileTheFirstLives) {
  const Job job = make_job();
  fs::create_directories(directory_);
  fs::create_symlink(directory_, scratch_ / "link");
  {
    const Checkpointer one(job, {.directory = directory_});
    EXPECT_THAT([&] { const Checkpointer other(job, {.directory = scratch_ / "link"}); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("give each a directory of its own")));
    EXPECT_NO_THROW(Checkpointer(job, {.directory = directory_, .read_only = true}));
  }
  EXPECT_NO_THROW(Checkpointer(job, {.directory = directory_}));
}

TEST_F(CheckpointOptionsOnRanks, AllRanksRefuseADirectoryThatTheyDoNotShare) {
  spawn(
      [&](Job& job) {
        std::string said;
        try {
          const Checkpointer checkpoints(job, {.directory = scratch_ / std::to_string(job.rank())});
        } catch (const std::runtime_error& error) {
          said = error.what();
        }
        require(said.find("rank 1: ") == 0 &&
                    said.find("is not the same directory here as on rank 0's node") != said.npos,
                said);
      },
      3);
}

}  // namespace
}  // namespace muster
