// What communication hooks keep from step to step goes through a checkpoint. Their gradients beside Python's:
// ddp_parity_test.cc.
#include <gtest/gtest.h>

#include "tests/require.h"
#include "tests/scratch_directory.h"
#include "tests/train/training.h"

namespace muster {
namespace {

// The steps `first` to `last` - 1, of several buckets, and a save.
std::string train_with_less(Job& job, bool low_rank, const std::string& directory, int first, int last) {
  torch::manual_seed(6 + static_cast<std::uint64_t>(job.rank()));
  const NoiseDataset dataset(96);
  auto model = DistributedDataParallel(SmallNet(), job, {.bucket_cap_mb = 0.005});
  FusedSGD optimizer(model.parameters(), torch::optim::SGDOptions(0.05));
  DataLoader loader(dataset, {.batch_size = 4, .shuffle = true, .seed = 3}, job);
  Checkpointer checkpoints(job, {.every = 1000, .directory = directory});
  TrainState state(model, optimizer, loader);
  PowerSGDState power(job, {.start_powerSGD_iter = 2, .min_compression_rate = 1.2});
  PostLocalSGDState local(job, std::nullopt, 2);
  PeriodicModelAverager averager(job, 3, 2);
  if (low_rank) {
    model.register_comm_hook(powerSGD_hook(power));
    state.add("power_sgd", power);
  } else {
    model.register_comm_hook(post_localSGD_hook(local));
    state.add("local", local);
    state.add("averager", averager);
  }
  require_equal(checkpoints.restore(state), std::int64_t{first}, "step");
  int step = first;
  for (auto& batch : loader.epochs(10)) {
    train_one(model, optimizer, batch);
    if (!low_rank) averager.average_parameters(model.parameters());
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

TEST(LessToSend, GoesOnFromACheckpointWhereItWouldHave) {
  ScratchDirectory scratch;
  for (const bool low_rank : {true, false}) {
    const std::string name = low_rank ? "power" : "local";
    spawn(
        [&](Job& job) {
          const std::string whole = train_with_less(job, low_rank, scratch / (name + ".whole"), 0, 9);
          train_with_less(job, low_rank, scratch / name, 0, 6);
          require(train_with_less(job, low_rank, scratch / name, 6, 9) == whole, name);
        },
        2);
  }
}

}  // namespace
}  // namespace muster
