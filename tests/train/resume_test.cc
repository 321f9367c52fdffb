// An interrupted and resumed training ends bit for bit where an undisturbed one does, on 3 and 4 ranks.
#include <cmath>
#include <gtest/gtest.h>

#include "tests/require.h"
#include "tests/scratch_directory.h"
#include "tests/train/training.h"

namespace muster {
namespace {

struct Plan {
  std::string checkpoints;
  std::int64_t stop_after = 1000;  // the process ends here, without an error
  std::int64_t every = 5;
  bool with_bucket_order = true;
  bool broadcast_buffers = true;
  std::string result;  // where each rank writes its parameters and buffers at the end of the training
};

void train(Job& job, const Plan& plan) {
  torch::manual_seed(7 + static_cast<std::uint64_t>(job.rank()));  // dropout differs from rank to rank
  const NoiseDataset dataset(140);
  auto model = DistributedDataParallel(SmallNet(), job,
                                       {.broadcast_buffers = plan.broadcast_buffers, .bucket_cap_mb = 0.004});
  torch::optim::Adam optimizer(model.parameters(), torch::optim::AdamOptions(1e-2));
  torch::optim::StepLR scheduler(optimizer, 4, 0.5);
  DataLoader loader(dataset, {.batch_size = 4, .shuffle = true, .num_workers = 2, .seed = 3}, job);
  Checkpointer checkpoints(job, {.every = plan.every, .directory = plan.checkpoints});
  auto state = plan.with_bucket_order ? TrainState(model, optimizer, loader)
                                      : TrainState(*model.module(), optimizer, loader);
  state.add("scheduler", scheduler);
  checkpoints.restore(state);
  for (auto& batch : loader.epochs(2)) {
    train_one(model, optimizer, batch);
    scheduler.step();
    checkpoints.step(state);
    if (checkpoints.steps() == plan.stop_after) return;
  }
  checkpoints.save(state);
  write_bytes(plan.result + std::to_string(job.rank()), bytes_of(*model.module()));
}

class ResumeTest : public testing::TestWithParam<int> {
 protected:
  void run(const Plan& plan) {
    spawn([&](Job& job) { train(job, plan); }, GetParam());
  }
  std::string undisturbed(bool broadcast_buffers = true) {
    run({.checkpoints = scratch_ / "undisturbed",
         .broadcast_buffers = broadcast_buffers,
         .result = scratch_ / "expected"});
    return result("expected");
  }
  std::string result(const std::string& name) const {
    std::string of_all;
    for (int rank = 0; rank < GetParam(); ++rank)
      of_all += read_bytes(scratch_ / name + std::to_string(rank));
    return of_all;
  }
  ScratchDirectory scratch_;
};

TEST_P(ResumeTest, EndsBitForBitWhereAnUndisturbedRunDoes) {
  const std::string expected = undisturbed();
  ASSERT_FALSE(expected.empty());
  for (const std::int64_t stop : {1, 7, 10, 13}) {
    SCOPED_TRACE(stop);
    const std::string checkpoints = scratch_ / std::to_string(stop);
    const std::int64_t every = stop == 1 ? 1 : 5;
    run({.checkpoints = checkpoints, .stop_after = stop, .every = every, .result = scratch_ / "none"});
    run({.checkpoints = checkpoints, .every = every, .result = scratch_ / "resumed"});
    EXPECT_TRUE(result("none").empty());
    EXPECT_EQ(result("resumed"), expected);
  }
}

TEST_P(ResumeTest, RanksKeepTheirOwnBuffersIfThoseAreNotBroadcast) {
  const std::string expected = undisturbed(/*broadcast_buffers=*/false);
  ASSERT_FALSE(expected.empty());
  run({.checkpoints = scratch_ / "own",
       .stop_after = 7,
       .broadcast_buffers = false,
       .result = scratch_ / "none"});
  run({.checkpoints = scratch_ / "own", .broadcast_buffers = false, .result = scratch_ / "resumed"});
  EXPECT_EQ(result("resumed"), expected);
}

TEST_P(ResumeTest, EndsElsewhereWithoutTheBucketOrder) {
  const std::string expected = undisturbed();
  run({.checkpoints = scratch_ / "a",
       .stop_after = 7,
       .with_bucket_order = false,
       .result = scratch_ / "none"});
  run({.checkpoints = scratch_ / "a", .with_bucket_order = false, .result = scratch_ / "resumed"});
  const std::string resumed = result("resumed");
  ASSERT_EQ(resumed.size(), expected.size());
  EXPECT_NE(resumed, expected);
}

INSTANTIATE_TEST_SUITE_P(Ranks, ResumeTest, testing::Values(3, 4));

// 2 ranks load a whole checkpoint of 4 ranks: the same parameters, and the data continues at the same place.
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
    if (!saving && loader.state().consumed != 24) std::exit(2);
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

TEST(Resume, ARankBeyondTheCheckpointsGetsTheBuffersOfRank0) {
  const ScratchDirectory scratch;
  const auto save_or_load = [&](Job& job, bool saving) {
    const NoiseDataset dataset(64);
    SmallNet net;
    torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1));
    DataLoader loader(dataset, {.batch_size = 2}, job);
    Checkpointer checkpoints(job, {.every = 1, .directory = scratch / "checkpoints"});
    TrainState state(net, optimizer, loader);
    at::Tensor& mean = net.norm->running_mean;
    if (saving) {
      mean.fill_(job.rank() + 10);
      checkpoints.step(state);
      require(checkpoints.wait(), "saved");
    } else {
      require_equal(checkpoints.restore(state), 1, "step");
      require_equal(mean[0].item<float>(), job.rank() == 1 ? 11.F : 10.F, "running mean");
    }
  };
  spawn([&](Job& job) { save_or_load(job, true); }, 2);
  spawn([&](Job& job) { save_or_load(job, false); }, 3);
}

// Every part fits except the order of the gradients' reduction: no rank changes anything.
TEST(Resume, AllRanksRefuseACheckpointOfOtherTrainedParametersAndChangeNothing) {
  const ScratchDirectory scratch;
  const auto save_or_load = [&](Job& job, bool saving) {
    const NoiseDataset dataset(64);
    SmallNet net;
    if (!saving) net.linear1->weight.set_requires_grad(false);
    auto model = DistributedDataParallel(net, job);
    torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
    DataLoader loader(dataset, {.batch_size = 2}, job);
    Checkpointer checkpoints(job, {.every = 1000, .directory = scratch / "checkpoints"});
    auto state = TrainState(model, optimizer, loader);
    if (saving) {
      train_one(model, optimizer, *loader.epochs(1).begin());
      checkpoints.step(state);
      require(checkpoints.save(state), "saved");
      return;
    }
    const std::string before = bytes_of(*model.module());
    std::string error;
    try {
      checkpoints.restore(state);
    } catch (const std::runtime_error& refused) {
      error = refused.what();
    }
    require(error.contains("bucket order: 'linear1.weight'"), "it is refused: " + error);
    require(bytes_of(*model.module()) == before, "nothing is changed");
  };
  spawn([&](Job& job) { save_or_load(job, true); }, 2);
  spawn([&](Job& job) { save_or_load(job, false); }, 2);
}

// One rank cannot write: the save fails once, on all ranks; training continues, and the next save succeeds.
TEST(Resume, ASaveThatFailsOnOneRankFailsOnAllAndTrainingContinues) {
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

// Tries each rank as the writer of the parameter that is not finite.
TEST(Resume, NoRankCommitsNonFiniteParameters) {
  const ScratchDirectory scratch;
  spawn(
      [&](Job& job) {
        const NoiseDataset dataset(64);
        auto model = DistributedDataParallel(SmallNet(), job);
        torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
        DataLoader loader(dataset, {.batch_size = 2}, job);
        Checkpointer checkpoints(job, {.every = 1000, .directory = scratch / "checkpoints"});
        auto state = TrainState(model, optimizer, loader);
        const torch::NoGradGuard no_grad;
        for (auto& parameter : model.parameters()) {
          const at::Tensor good = parameter.clone();
          parameter.view(-1)[-1] = NAN;
          checkpoints.step(state);
          require(!checkpoints.save(state), "parameters that are not finite are not committed");
          parameter.copy_(good);
        }
        require(checkpoints.save(state), "finite parameters are committed");
      },
      3);
  EXPECT_TRUE(std::filesystem::exists(scratch / "checkpoints/step-10.attempt-1/manifest.json"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "checkpoints/step-9.attempt-1"));
}

}  // namespace
}  // namespace muster
