// An interrupted and resumed training ends bit for bit where an undisturbed one does, on 3 and 4 ranks.
#include <gtest/gtest.h>

#include "tests/scratch_directory.h"
#include "tests/train/training.h"

namespace muster {
namespace {

constexpr std::int64_t kEpochs = 2;

struct Plan {
  std::string checkpoints;
  std::int64_t stop_after = 1000;  // the process ends here, as if killed
  std::int64_t every = 5;
  bool with_bucket_order = true;
  std::string result;  // rank 0 leaves the parameters here when training is through
};

void train(Job& job, const Plan& plan) {
  torch::manual_seed(7 + static_cast<std::uint64_t>(job.rank()));  // dropout differs from rank to rank
  const NoiseDataset dataset(140);
  auto model = DistributedDataParallel(SmallNet(), job, {.bucket_cap_mb = 0.004});
  torch::optim::Adam optimizer(model.parameters(), torch::optim::AdamOptions(1e-2));
  DataLoader loader(dataset, {.batch_size = 4, .shuffle = true, .num_workers = 2, .seed = 3}, job);
  Checkpointer checkpoints(job, {.every = plan.every, .directory = plan.checkpoints});
  auto state = plan.with_bucket_order ? TrainState(model, optimizer, loader)
                                      : TrainState(*model.module(), optimizer, loader);
  checkpoints.restore(state);
  for (auto& batch : loader.epochs(kEpochs)) {
    train_one(model, optimizer, batch);
    checkpoints.step(state);
    if (checkpoints.steps() == plan.stop_after) return;
  }
  checkpoints.save(state);
  if (job.rank() == 0) write_bytes(plan.result, bytes_of(*model.module()));
}

class ResumeTest : public testing::TestWithParam<int> {
 protected:
  void run(const Plan& plan) {
    spawn([&](Job& job) { train(job, plan); }, GetParam());
  }
  std::string undisturbed() {
    run({.checkpoints = scratch_ / "undisturbed", .result = scratch_ / "expected"});
    return read_bytes(scratch_ / "expected");
  }
  ScratchDirectory scratch_;
};

TEST_P(ResumeTest, EndsWhereAnUndisturbedRunEndsBitForBit) {
  const std::string expected = undisturbed();
  ASSERT_FALSE(expected.empty());
  for (const std::int64_t stop : {1, 7, 10, 13}) {
    SCOPED_TRACE(stop);
    const std::string checkpoints = scratch_ / std::to_string(stop);
    const std::int64_t every = stop == 1 ? 1 : 5;
    run({.checkpoints = checkpoints, .stop_after = stop, .every = every, .result = scratch_ / "none"});
    run({.checkpoints = checkpoints, .every = every, .result = scratch_ / "resumed"});
    EXPECT_FALSE(std::filesystem::exists(scratch_ / "none"));
    EXPECT_EQ(read_bytes(scratch_ / "resumed"), expected);
  }
}

TEST_P(ResumeTest, EndsElsewhereWithoutTheBucketOrder) {
  const std::string expected = undisturbed();
  run({.checkpoints = scratch_ / "a",
       .stop_after = 7,
       .with_bucket_order = false,
       .result = scratch_ / "none"});
  run({.checkpoints = scratch_ / "a", .with_bucket_order = false, .result = scratch_ / "resumed"});
  const std::string resumed = read_bytes(scratch_ / "resumed");
  ASSERT_EQ(resumed.size(), expected.size());
  EXPECT_NE(resumed, expected);
}

INSTANTIATE_TEST_SUITE_P(Ranks, ResumeTest, testing::Values(3, 4));

// What was saved by 4 ranks is whole for 2: the same parameters, and the data goes on at the same place.
TEST(Resume, FewerRanksLoadACheckpointOfMore) {
  const ScratchDirectory scratch;
  const auto save_or_load = [&](Job& job, bool saving) {
    const NoiseDataset dataset(128);
    auto model = DistributedDataParallel(SmallNet(), job);
    torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    DataLoader loader(dataset, {.batch_size = saving ? 2 : 4, .shuffle = true}, job);
    Checkpointer checkpoints(job, {.every = 3, .directory = scratch / "checkpoints"});
    auto state = TrainState(model, optimizer, loader);
    if (!saving && checkpoints.restore(state) != 3) std::exit(1);
    if (!saving && loader.state().batch != 3) std::exit(2);
    for (auto& batch : loader.epochs(1)) {
      if (!saving) break;
      train_one(model, optimizer, batch);
      checkpoints.step(state);
      if (checkpoints.steps() == 3) break;
    }
    if (!checkpoints.wait()) std::exit(3);
    if (job.rank() == 0) write_bytes(scratch / (saving ? "saved" : "loaded"), bytes_of(*model.module()));
  };
  spawn([&](Job& job) { save_or_load(job, true); }, 4);
  spawn([&](Job& job) { save_or_load(job, false); }, 2);
  EXPECT_EQ(read_bytes(scratch / "saved"), read_bytes(scratch / "loaded"));
}

// One rank cannot write: the save fails on all, once, training goes on, and the next save succeeds.
TEST(Resume, ASaveThatFailsOnOneRankFailsOnAllAndTrainingGoesOn) {
  const ScratchDirectory scratch;
  spawn(
      [&](Job& job) {
        const NoiseDataset dataset(64);
        auto model = DistributedDataParallel(SmallNet(), job);
        torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
        DataLoader loader(dataset, {.batch_size = 2}, job);
        Checkpointer checkpoints(job, {.every = 1000, .directory = scratch / "checkpoints"});
        auto state = TrainState(model, optimizer, loader);
        for (auto& batch : loader.epochs(1)) {
          train_one(model, optimizer, batch);
          checkpoints.step(state);
          const std::string blocked = scratch / "checkpoints/step-2.attempt-1/rank-00001.safetensors.tmp";
          if (checkpoints.steps() == 2 && job.rank() == 1) std::filesystem::create_directories(blocked);
          job.barrier();
          if (checkpoints.save(state) != (checkpoints.steps() != 2)) std::exit(1);
          if (checkpoints.steps() == 3) break;
        }
      },
      3);
  EXPECT_TRUE(std::filesystem::exists(scratch / "checkpoints/step-1.attempt-1/manifest.json"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "checkpoints/step-2.attempt-1"));
  EXPECT_TRUE(std::filesystem::exists(scratch / "checkpoints/step-3.attempt-1/manifest.json"));
}

}  // namespace
}  // namespace muster
