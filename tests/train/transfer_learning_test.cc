// The example of transfer learning under the real launcher.
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::HasSubstr;

class TransferLearning : public testing::Test {
 protected:
  std::vector<std::string> command(const std::string& checkpoints, const std::string& flags,
                                   const std::string& width = "4") const {
    std::vector<std::string> words{"--max-restarts", "0",   "--gpus-per-node",  "2",
                                   "--device",       "cpu", "--checkpoint-dir", scratch_ / checkpoints,
                                   TRANSFER_PROGRAM};
    std::istringstream more("--width " + width + " --train-images 128 --batch-size 16 " + flags);
    for (std::string word; more >> word;) words.push_back(word);
    return words;
  }
  ScratchDirectory scratch_;
};

TEST_F(TransferLearning, ABackboneLearnsOtherClassesUnderANewHead) {
  LaunchRun backbone(command("backbone", "--epochs 1"));
  ASSERT_EQ(backbone.exit_code(), 0) << backbone.err();
  EXPECT_THAT(backbone.out(), HasSubstr("step 4/4  loss "));
  // Frozen for the first epoch, and thawed in the second.
  LaunchRun transfer(
      command("transfer", "--first-class 5 --epochs 2 --frozen-epochs 1 --from " + (scratch_ / "backbone")));
  ASSERT_EQ(transfer.exit_code(), 0) << transfer.err();
  EXPECT_THAT(transfer.out(), HasSubstr("step 8/8  loss "));
  EXPECT_THAT(transfer.out(), HasSubstr("test accuracy 0."));
  LaunchRun other(command("other", "--from " + (scratch_ / "backbone"), "8"));
  EXPECT_EQ(other.exit_code(), 2);
  EXPECT_THAT(other.err(), HasSubstr("does not fit the module; of another shape: "));
}

}  // namespace
}  // namespace muster
