// The transfer learning example under the real launcher.
#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <sstream>

#include "common/checkpoint/directory.h"
#include "common/checkpoint/reader.h"
#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::HasSubstr;

// The bytes of the network's tensors in a checkpoint, by name.
std::map<std::string, std::string> network_at(const std::string& path, std::uint64_t step) {
  std::map<std::string, std::string> network;
  const CheckpointDirectory directory(path);
  for (const CheckpointId id : directory.resumable().value_or(std::vector<CheckpointId>())) {
    if (id.step != step) continue;
    const auto manifest = directory.read_manifest(id);
    if (!manifest) continue;
    for (const auto& [name, tensor] : manifest->shared.tensors) {
      if (!name.starts_with("model.")) continue;
      std::string& bytes = network[name.substr(std::string("model.").size())];
      bytes.resize(bytes_of(tensor.dtype, tensor.shape).value());
      auto requests =
          requests_for(name, tensor, whole_of(tensor.shape), reinterpret_cast<std::byte*>(bytes.data()));
      EXPECT_TRUE(requests && read_parts(directory.path_of(id), manifest->files, *std::move(requests)));
    }
  }
  EXPECT_FALSE(network.empty()) << "no step " << step << " in " << path;
  return network;
}

// The numbers of tensors that differ in the backbone and in the head.
struct Changes {
  int backbone = 0, head = 0;
};
Changes changes_between(const std::map<std::string, std::string>& before,
                        const std::map<std::string, std::string>& after) {
  Changes changes;
  EXPECT_EQ(before.size(), after.size());
  for (const auto& [name, bytes] : before)
    if (after.at(name) != bytes) ++(name.starts_with("fc.") ? changes.head : changes.backbone);
  return changes;
}

double accuracy_in(const std::string& printed) {
  constexpr std::string_view kBefore = "test accuracy ";
  const std::size_t found = printed.find(kBefore);
  return found == std::string::npos ? -1 : std::atof(printed.c_str() + found + kBefore.size());
}

class TransferLearning : public testing::Test {
 protected:
  std::vector<std::string> command(const std::string& checkpoints, const std::string& flags,
                                   const std::string& width = "8") const {
    std::vector<std::string> words{"--max-restarts", "0",   "--gpus-per-node",  "2",
                                   "--device",       "cpu", "--checkpoint-dir", scratch_ / checkpoints,
                                   TRANSFER_PROGRAM};
    std::istringstream more("--width " + width +
                            " --train-images 1024 --batch-size 16 --checkpoint-every 32 --lr 0.01 " + flags);
    for (std::string word; more >> word;) words.push_back(word);
    return words;
  }
  ScratchDirectory scratch_;
};

// Five classes: guessing gives an accuracy of 0.2.
TEST_F(TransferLearning, ABackboneLearnsOtherClassesWithANewHead) {
  const std::map<std::string, std::string> one_thread{{"OMP_NUM_THREADS", "1"}};
  LaunchRun backbone(command("backbone", "--epochs 1"), one_thread);
  ASSERT_EQ(backbone.exit_code(), 0) << backbone.err();
  EXPECT_THAT(backbone.out(), HasSubstr("step 32/32  loss "));
  // The backbone is frozen in the first epoch and unfrozen in the second.
  const std::string from = "--from " + (scratch_ / "backbone");
  LaunchRun transfer(command("transfer", "--first-class 5 --epochs 2 --frozen-epochs 1 " + from), one_thread);
  ASSERT_EQ(transfer.exit_code(), 0) << transfer.err();
  EXPECT_THAT(transfer.out(), HasSubstr("step 64/64  loss "));
  EXPECT_GT(accuracy_in(transfer.out()), 0.7) << transfer.out();

  const auto taken = network_at(scratch_ / "backbone", 32), frozen = network_at(scratch_ / "transfer", 32),
             thawed = network_at(scratch_ / "transfer", 64);
  const Changes while_frozen = changes_between(taken, frozen), after = changes_between(frozen, thawed);
  EXPECT_EQ(while_frozen.backbone, 0) << "parameters and statistics";
  EXPECT_EQ(while_frozen.head, 2) << "weight and bias";
  EXPECT_EQ(after.backbone + after.head, static_cast<int>(thawed.size())) << "all parameters learn";

  LaunchRun other(command("other", from, "4"), one_thread);
  EXPECT_EQ(other.exit_code(), 2);
  EXPECT_THAT(other.err(), HasSubstr("does not fit the module; of another shape: "));
}

}  // namespace
}  // namespace muster
