#include <fstream>
#include <gtest/gtest.h>
#include <thread>

#include "launcher/io/sweep/trial_directory.h"
#include "tests/scratch_directory.h"
#include "tests/written_checkpoint.h"

namespace muster::launcher::sweep {
namespace {

namespace fs = std::filesystem;

class TakeOver : public testing::Test {
 protected:
  TakeOver() { CHECK(donor.begin_attempt("job"), "cannot begin"); }
  void save(std::uint64_t step) const { write_checkpoint(donor, {step, Attempt(1)}, example_checkpoint()); }
  void take_over(std::int64_t step, std::int32_t run = 1) const {
    const Status taken = take_over_checkpoints(
        mine.path(), donor.path(),
        {.point = {}, .exploited = Exploited{.trial = 1, .step = step}, .exploit_run = run});
    ASSERT_TRUE(taken) << taken.error().message();
  }

  const ScratchDirectory scratch;
  const CheckpointDirectory donor{scratch / "donor"};
  const CheckpointDirectory mine{scratch / "mine"};
};

TEST_F(TakeOver, LinksTheNewestCheckpoint) {
  save(3);
  save(6);
  take_over(6);
  const auto ids = mine.resumable();
  ASSERT_TRUE(ids) << ids.error().message();
  ASSERT_EQ(*ids, (std::vector<CheckpointId>{{6, Attempt(1)}}));
  for (const auto& file : fs::directory_iterator(donor.path_of(ids->front())))
    EXPECT_TRUE(fs::equivalent(file, fs::path(mine.path_of(ids->front())) / file.path().filename())) << file;
  EXPECT_EQ(mine.begin_attempt("other")->resume, ids->front());
}

// The donor saves at each step and keeps one checkpoint.
TEST_F(TakeOver, TakesAWholeCheckpointOfADonorThatRemovesOldOnes) {
  save(1);
  std::jthread training([this](const std::stop_token& stop) {
    for (std::uint64_t step = 2; !stop.stop_requested(); ++step) {
      save(step);
      CHECK(donor.remove({step - 1, Attempt(1)}), "cannot remove");
    }
  });
  for (std::int64_t taken = 1; taken <= 200 && !HasFailure(); ++taken) {
    take_over(taken);
    const auto ids = mine.resumable();
    ASSERT_TRUE(ids) << ids.error().message();
    ASSERT_EQ(ids->size(), 1U);
    for (const ManifestFile& file : mine.read_manifest(ids->front())->files)
      EXPECT_EQ(fs::file_size(mine.path_of(ids->front()) + "/" + file.name), file.size_bytes);
  }
}

// The donor has not moved on, and the parameters are the same by chance.
TEST_F(TakeOver, TakesTheSameCheckpointAgainForAnotherRun) {
  fs::create_directories(donor.path());
  std::ofstream(donor.path() + "/model.pt") << "seven";
  take_over(7);
  std::ofstream(mine.path() + "/model.pt") << "eight";
  take_over(7);
  EXPECT_EQ(read_file(mine.path() + "/model.pt", 100).value(), "eight") << "a repeated call does nothing";
  take_over(7, 2);
  EXPECT_EQ(read_file(mine.path() + "/model.pt", 100).value(), "seven");
}

// A program may write into its file, and must not change the donor's.
TEST_F(TakeOver, CopiesFilesOfTheProgramsOwn) {
  fs::create_directories(donor.path() + "/checkpoint-7");
  std::ofstream(donor.path() + "/checkpoint-7/model.pt") << "seven";
  take_over(7);
  std::ofstream(mine.path() + "/checkpoint-7/model.pt", std::ios::app) << " and eight";
  EXPECT_EQ(read_file(donor.path() + "/checkpoint-7/model.pt", 100).value(), "seven");
  EXPECT_EQ(read_file(mine.path() + "/checkpoint-7/model.pt", 100).value(), "seven and eight");
  EXPECT_TRUE(mine.resumable().value().empty());
}

}  // namespace
}  // namespace muster::launcher::sweep
