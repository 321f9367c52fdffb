// The state of communication hooks survives a checkpoint. ddp_parity_test.cc compares their gradients with
// Python's.
#include <array>
#include <gtest/gtest.h>

#include "tests/require.h"
#include "tests/scratch_directory.h"
#include "tests/train/training.h"

namespace muster {
namespace {

// Makes the steps `first` to `last` - 1, with several buckets, and saves.
enum class Less { kPower, kBatchedPower, kLocal };
std::string train_with_less(Job& job, Less less, const std::string& directory, int first, int last) {
  torch::manual_seed(6 + static_cast<std::uint64_t>(job.rank()));
  const NoiseDataset dataset(96);
  auto model = DistributedDataParallel(SmallNet(), job, {.bucket_cap_mb = 0.005});
  FusedSGD optimizer(model.parameters(), torch::optim::SGDOptions(0.05));
  DataLoader loader(dataset, {.batch_size = 4, .shuffle = true, .seed = 3}, job);
  Checkpointer checkpoints(job, {.every = 1000, .directory = directory});
  TrainState state(model, optimizer, loader);
  PowerSGDState power(job, {.start_powerSGD_iter = 2, .min_compression_rate = 1.2});
  PostLocalSGDState local(job, std::nullopt, 2);
  PostLocalSGDOptimizer local_optimizer(optimizer, PeriodicModelAverager(job, 3, 2));
  PeriodicModelAverager& averager = local_optimizer.averager();
  const bool low_rank = less != Less::kLocal;
  if (low_rank) {
    model.register_comm_hook(less == Less::kPower ? powerSGD_hook(power) : batched_powerSGD_hook(power));
    state.add("power_sgd", power);
  } else {
    model.register_comm_hook(post_localSGD_hook(local));
    state.add("local", local);
    state.add("averager", averager);
  }
  require_equal(checkpoints.restore(state), std::int64_t{first}, "step");
  int step = first;
  for (auto& batch : loader.epochs(10)) {
    if (low_rank)
      train_one(model, optimizer, batch);
    else
      train_one(model, local_optimizer, batch);
    checkpoints.step(state);
    if (++step == last) break;
  }
  if (low_rank) {
    require_equal(power.iter(), std::int64_t{last}, "steps");
    require(model.bucket_order().size() > 1, "several buckets");
    require(power.numel_after_compression() * 2 < power.numel_before_compression(), "it is compressed");
  } else {
    require(averager.averaged(), "all ranks have the mean");
  }
  require(checkpoints.save(state), "a save");
  return bytes_of(*model.module());
}

TEST(LessToSend, ResumesFromACheckpointAsIfUninterrupted) {
  ScratchDirectory scratch;
  for (const Less less : {Less::kPower, Less::kBatchedPower, Less::kLocal}) {
    const std::string name = std::array{"power", "batched", "local"}[static_cast<std::size_t>(less)];
    spawn(
        [&](Job& job) {
          const std::string whole = train_with_less(job, less, scratch / (name + ".whole"), 0, 9);
          train_with_less(job, less, scratch / name, 0, 6);
          require(train_with_less(job, less, scratch / name, 6, 9) == whole, name);
        },
        2);
  }
}

}  // namespace
}  // namespace muster
