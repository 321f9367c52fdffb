// Trains a small network on Fashion-MNIST with data parallelism, and survives the loss of workers:
//
//   launch --nodes 2 --gpus-per-node 2 --checkpoint-dir DIR train_fashion_mnist
#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "examples/common/is_trained.h"
#include "examples/common/parameter_digest.h"
#include "examples/fashion_mnist/evaluation.h"
#include "examples/fashion_mnist/net.h"
#include "examples/fashion_mnist/options.h"

namespace {

// Mean and standard deviation of the training images.
constexpr muster::IdxNormalization kNormalization{.mean = 0.2860F, .stddev = 0.3530F};

struct Data {
  explicit Data(const std::string& folder)
      : train(folder + "/train-images-idx3-ubyte.gz", folder + "/train-labels-idx1-ubyte.gz", kNormalization),
        test(folder + "/t10k-images-idx3-ubyte.gz", folder + "/t10k-labels-idx1-ubyte.gz", kNormalization) {}
  muster::IdxDataset train;
  muster::IdxDataset test;
};

std::unique_ptr<Data> load_data(const std::string& folder) {
  try {
    return std::make_unique<Data>(folder);
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr,
                 "train_fashion_mnist: %s (install the package dataset-fashion-mnist, "
                 "or name a folder with --data-dir)\n",
                 error.what());
    return nullptr;
  }
}

// False if the result could not be saved.
bool train(muster::DistributedDataParallel<NetImpl>& model, const Data& data, const Options& options,
           const muster::Job& job) {
  torch::optim::Adam optimizer(model.parameters(), torch::optim::AdamOptions(options.lr));
  muster::DataLoader loader(data.train,
                            {.batch_size = options.batch_size,
                             .shuffle = true,
                             .num_workers = options.num_workers,
                             .pin_memory = true,
                             .seed = options.seed,
                             .device = job.device()},
                            job);
  muster::Checkpointer checkpoints(job,
                                   {.every = options.checkpoint_every, .memory_every = options.memory_every});
  auto state = muster::TrainState(model, optimizer, loader);
  const std::int64_t resumed = checkpoints.restore(state);
  if (resumed > 0 && job.rank() == 0) std::printf("resumed at step %ld\n", static_cast<long>(resumed));

  std::int64_t steps = options.epochs * loader.batches_per_epoch();
  if (options.max_steps > 0) steps = std::min(steps, options.max_steps);
  if (is_trained(job.rank() == 0, resumed, steps)) return true;
  muster::ProgressBar progress({.first_step = resumed,
                                .total_steps = steps,
                                .samples_per_step = options.batch_size * job.world_size()});
  for (auto& batch : loader.epochs(options.epochs)) {
    optimizer.zero_grad();
    const auto loss = torch::nn::functional::cross_entropy(model(batch.data), batch.target);
    loss.backward();
    if (options.clip_grad_norm > 0) muster::clip_grad_norm_(model, options.clip_grad_norm);
    optimizer.step();
    checkpoints.step(state);
    progress.loss(loss);
    progress.after_step(checkpoints.steps());
    fail_if_asked(options.fail_at, job.rank(), job.restart_count(), checkpoints.steps());
    if (checkpoints.steps() >= steps) break;
  }
  return checkpoints.save(state);
}

}  // namespace

int main(int argc, char** argv) {
  auto job = muster::init();
  const Options options = parse_options(argc, argv);
  const auto data = load_data(options.data_dir);
  if (!data) return 2;

  muster::seed_everything(options.seed, {.deterministic = options.deterministic});
  Net net;
  net->to(job.device());
  if (job.rank() == 0 && job.restart_count() == 0)
    std::fputs(muster::summary(net, {options.batch_size, 1, 28, 28}).table().c_str(), stdout);
  muster::DistributedDataParallel model(net, job);
  // All ranks have equal parameters; each draws its own dropout.
  muster::seed_everything(options.seed + 1 + static_cast<std::uint64_t>(job.rank()));

  if (!train(model, *data, options, job)) {
    std::fprintf(stderr, "train_fashion_mnist: the last step could not be saved\n");
    return 1;
  }
  const auto profile = muster::step_profile(job);
  if (job.rank() == 0) std::fputs(profile.table().c_str(), stdout);
  const double share = test_accuracy(*net, data->test, job);
  if (job.rank() == 0)
    std::printf("test accuracy %.4f\nparameters xxh3 %s\n", share, parameter_digest(*net).c_str());
  return 0;
}
