// Saves that fail: what the user is told, and that a later save succeeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <thread>

#include "tests/train/checkpoint_fixture.h"
#include "tests/warnings.h"
#include "tests/written_checkpoint.h"

namespace muster {
namespace {

using testing::HasSubstr;

TEST_F(CheckpointTest, ReportsSavesThatFailForOneReasonOnceAndCountsThemWhenItIsOver) {
  const Warnings warnings;
  Training training(directory_);
  training.train(1);
  ASSERT_TRUE(training.checkpoints.save(training.state));
  write_bytes(directory_ + "/attempts/stray", "");
  for (int step = 0; step < 2; ++step) {
    training.train(1);
    EXPECT_FALSE(training.checkpoints.save(training.state));
  }
  EXPECT_THAT(warnings.lines(), testing::ElementsAre(HasSubstr("the checkpoint of step 2 failed: rank 0: ")));
  fs::remove(directory_ + "/attempts/stray");
  EXPECT_TRUE(training.checkpoints.save(training.state));
  EXPECT_THAT(warnings.lines(),
              testing::ElementsAre(testing::_, HasSubstr("2 saves failed, from step 2 on: rank 0: ")));
}

// Fills the disk of `directory`, except for the room that a file of this size needs.
void fill_disk(const std::string& directory, const std::string& filler, std::uintmax_t left) {
  constexpr std::uintmax_t kPage = 4096;
  left = (left + kPage - 1) / kPage * kPage;
  write_bytes(filler, std::string(fs::space(directory).available - left, 'x'));
  ASSERT_EQ(fs::space(directory).available, left);
}

TEST_F(CheckpointTest, CountsSavesWhoseManifestDoesNotFitOnTheDisk) {
  bool mounted = false;
  std::thread([&] {  // this thread and the writing thread have their own mounts
    fs::create_directory(directory_);
    mounted = unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
              mount("none", directory_.c_str(), "tmpfs", 0, "size=1m") == 0;
    if (!mounted) return;
    const Warnings warnings;
    Training training(directory_);
    training.train(1);
    ASSERT_TRUE(training.checkpoints.save(training.state));
    const std::string filler = directory_ + "/filler";
    fill_disk(directory_, filler, fs::file_size(directory_ + "/step-1.attempt-1/rank-00000.safetensors"));
    for (int step = 0; step < 3; ++step) {
      training.train(1);
      EXPECT_FALSE(training.checkpoints.save(training.state));
    }
    fs::remove(filler);
    EXPECT_TRUE(training.checkpoints.save(training.state));
    const std::string why = "/manifest.json: No space left on device";
    EXPECT_THAT(warnings.lines(),
                testing::ElementsAre(HasSubstr("the checkpoint of step 2 failed: cannot write " + directory_ +
                                               "/step-2.attempt-1" + why),
                                     HasSubstr("3 saves failed, from step 2 on: cannot write " + directory_ +
                                               "/step-*" + why)));
  })
      .join();
  if (!mounted) GTEST_SKIP() << "this user may not mount";
}

TEST_F(CheckpointTest, SavesDoNotMakeADirectoryThatIsGoneAndSucceedWhenItIsBack) {
  const Warnings warnings;
  Training training(directory_);
  const auto saves = [&] {
    training.train(1);
    return training.checkpoints.save(training.state);
  };
  ASSERT_TRUE(saves());
  const std::string away = scratch_ / "away";
  fs::rename(directory_, away);
  EXPECT_FALSE(saves());
  EXPECT_FALSE(saves());
  EXPECT_FALSE(fs::exists(directory_));
  fs::create_directory(directory_);
  EXPECT_FALSE(saves()) << "an empty one in its place";
  EXPECT_TRUE(fs::is_empty(directory_));
  fs::remove(directory_);
  fs::rename(away, directory_);
  EXPECT_TRUE(saves());
  const std::string gone =
      "the checkpoint directory " + directory_ + " is gone (moved or removed during the training): ";
  EXPECT_THAT(warnings.lines(), testing::ElementsAre(HasSubstr("the checkpoint of step 2 failed: " + gone),
                                                     HasSubstr("3 saves failed, from step 2 on: " + gone)));
  EXPECT_EQ(restored_step(directory_), 5);
}

}  // namespace
}  // namespace muster
