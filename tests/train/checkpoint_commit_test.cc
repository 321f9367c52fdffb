// Ranks that save together while one is slow, fails, or sees another disk: what is committed can be read, and
// all ranks hear the same.
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "tests/require.h"
#include "tests/scratch_directory.h"
#include "tests/train/training.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

struct LargeNet : torch::nn::Module {
  torch::nn::Linear linear{nullptr};
  explicit LargeNet(std::int64_t buffer_bytes) {
    linear = register_module("linear", torch::nn::Linear(12, 5));
    register_buffer("large", at::zeros({buffer_bytes}, at::kByte));
  }
};

struct LargeTraining {
  LargeTraining(Job& a_job, const std::string& directory, std::int64_t buffer_bytes,
                std::chrono::milliseconds timeout)
      : job(a_job),
        net(buffer_bytes),
        checkpoints(job, {.every = 1000, .directory = directory, .keep = 100, .commit_timeout = timeout}) {}
  void fill(double value) {
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : net.parameters()) parameter.fill_(value);
  }
  Job job;
  NoiseDataset dataset{8};
  LargeNet net;
  torch::optim::SGD optimizer{net.parameters(), torch::optim::SGDOptions(0.1)};
  DataLoader<Example> loader{dataset, {}, 0, 1};
  Checkpointer checkpoints;
  TrainState state{net, optimizer, loader};
};

// Rank 0 takes many times commit_timeout for its own shard. Nobody may give up, and retry alone, meanwhile.
TEST(CheckpointCommit, ASlowRank0KeepsTheOthersWaitingAndWhatItCommitsCanBeRead) {
  const ScratchDirectory scratch;
  constexpr std::int64_t kBufferBytes = 200 << 20;
  spawn(
      [&](Job& job) {
        LargeTraining training(job, scratch / "checkpoints", kBufferBytes, std::chrono::milliseconds(20));
        for (int step = 1; step <= 2; ++step) {
          training.fill(step);
          training.checkpoints.step(training.state);
          job.barrier();
          require(training.checkpoints.save(training.state), "the save failed");
        }
      },
      2);
  spawn(
      [&](Job& job) {
        LargeTraining training(job, scratch / "checkpoints", kBufferBytes, std::chrono::minutes(1));
        require(training.checkpoints.restore(training.state) == 2, "step 2 cannot be read");
        for (const at::Tensor& parameter : training.net.parameters())
          require(parameter.eq(2).all().item<bool>(), "another step's parameters");
      },
      2);
}

// Rank 1 comes too late once: that save fails on both, and both make the next together.
TEST(CheckpointCommit, ALateRankFailsTheSaveOnAllAndTheyRetryTogether) {
  const ScratchDirectory scratch;
  spawn(
      [&](Job& job) {
        LargeTraining training(job, scratch / "checkpoints", 1, std::chrono::seconds(1));
        training.checkpoints.step(training.state);
        if (job.rank() == 1) job.store()->wait({"given up"});
        require(!training.checkpoints.save(training.state), "a save without rank 1");
        if (job.rank() == 0) job.store()->set("given up", "");
        job.barrier();
        require(training.checkpoints.save(training.state), "the second try");
        training.checkpoints.step(training.state);
        job.barrier();
        require(training.checkpoints.save(training.state), "the next step");
        require(training.checkpoints.restore(training.state) == 2, "step 2 cannot be read");
      },
      2);
}

// On rank 1 a part of the state cannot be saved, once.
struct FailingNet : SmallNet {
  BucketOrder bucket_order() {
    if (std::exchange(*fails, false)) throw std::runtime_error("out of memory");
    return {};
  }
  void check_bucket_order(const BucketOrder& /*order*/) const {}
  void set_bucket_order(const BucketOrder& /*order*/) {}
  std::shared_ptr<bool> fails = std::make_shared<bool>(false);
};

TEST(CheckpointCommit, ARankThatCannotGatherItsStateFailsTheSaveOnAllAndTheyRetryTogether) {
  const ScratchDirectory scratch;
  spawn(
      [&](Job& job) {
        alarm(60);  // before the others' patience is over
        FailingNet net;
        torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1));
        const NoiseDataset dataset(8);
        DataLoader<Example> loader(dataset, {}, 0, 1);
        TrainState state(net, optimizer, loader);
        Checkpointer checkpoints(job, {.every = 1000, .directory = scratch / "checkpoints"});
        checkpoints.step(state);
        *net.fails = job.rank() == 1;
        require(!checkpoints.save(state), "a save without rank 1's part");
        require(checkpoints.save(state), "the second try");
      },
      2);
}

// The directory has been the same on both, and is not any more.
TEST(CheckpointCommit, AShardThatRank0CannotSeeIsNotCommitted) {
  const ScratchDirectory scratch;
  for (const char* name : {"shared", "elsewhere"}) fs::create_directories(scratch / name);
  for (const char* name : {"0", "1"}) fs::create_directory_symlink(scratch / "shared", scratch / name);
  spawn(
      [&](Job& job) {
        const std::string mine = scratch / std::to_string(job.rank());
        LargeTraining training(job, mine, 1, std::chrono::minutes(1));
        training.checkpoints.step(training.state);
        if (job.rank() == 1) {
          fs::remove(mine);
          fs::create_directory_symlink(scratch / "elsewhere", mine);
        }
        job.barrier();
        require(!training.checkpoints.save(training.state), "rank 1's shard is elsewhere");
      },
      2);
  EXPECT_TRUE(fs::exists(scratch / "elsewhere/step-1.attempt-1/rank-00001.safetensors"));
  EXPECT_FALSE(fs::exists(scratch / "shared/step-1.attempt-1"));
}

}  // namespace
}  // namespace muster
