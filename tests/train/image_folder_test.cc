// The example that trains on JPEG files, under the real launcher.
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

namespace fs = std::filesystem;

class TrainImageFolder : public testing::Test {
 protected:
  void SetUp() override {
    const std::string command = fmt::format("'{}' --out '{}' --train 200 --val 50", JPEG_PROGRAM, data_);
    ASSERT_EQ(std::system(command.c_str()), 0);  // NOLINT: no other thread runs
  }
  std::vector<std::string> command(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"--gpus-per-node",
                                   "2",
                                   "--device",
                                   "cpu",
                                   "--checkpoint-dir",
                                   scratch_ / "checkpoints",
                                   "--max-restarts",
                                   "0",
                                   TRAIN_PROGRAM,
                                   "--data-dir",
                                   data_,
                                   "--batch-size",
                                   "20",
                                   "--epochs",
                                   "2"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  ScratchDirectory scratch_;
  const std::string data_ = scratch_ / "jpegs";
};

TEST_F(TrainImageFolder, TrainsOnTwoRanks) {
  LaunchRun run(command());
  ASSERT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), AllOf(HasSubstr("200 images of 10 classes"), HasSubstr("step 10/10"),
                               HasSubstr("test accuracy 0.")));
}

TEST_F(TrainImageFolder, ACorruptImageEndsTheJobAndIsNamed) {
  const std::string path = data_ + "/train/bag/00023.jpg";
  ASSERT_TRUE(fs::exists(path));
  fs::resize_file(path, fs::file_size(path) - 100);
  LaunchRun run(command());
  EXPECT_EQ(run.exit_code(), 1);
  const std::string reason = fmt::format("cannot read {}: Premature end of JPEG file", path);
  EXPECT_THAT(run.err(), AllOf(HasSubstr(fmt::format(" of {}/train: {}", data_, reason)),
                               HasSubstr("cannot load sample ")));
  EXPECT_TRUE(run.descendants().empty());

  LaunchRun skipping(command({"--skip-bad"}));
  EXPECT_EQ(skipping.exit_code(), 0) << skipping.err();
  // The rank that has the corrupt image leaves it out once in each of two epochs.
  EXPECT_THAT(skipping.out(), AnyOf(HasSubstr("bad images left out: 2 on rank 0, 0 on rank 1"),
                                    HasSubstr("bad images left out: 1 on rank 0, 1 on rank 1"),
                                    HasSubstr("bad images left out: 0 on rank 0, 2 on rank 1")));
}

TEST_F(TrainImageFolder, AFolderWithoutClassesIsRefused) {
  fs::remove_all(data_ + "/val");
  LaunchRun run(command());
  EXPECT_EQ(run.exit_code(), 2);
  EXPECT_THAT(run.err(), HasSubstr(fmt::format("cannot open {}/val: No such file or directory", data_)));
}

}  // namespace
}  // namespace muster
