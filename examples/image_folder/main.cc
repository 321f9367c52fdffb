// Trains a small network on folders of images with data parallelism, and survives the loss of workers:
//
//   fashion_mnist_jpegs --out DIR
//   launch --gpus-per-node 2 --checkpoint-dir CHECKPOINTS train_image_folder --data-dir DIR
#include <algorithm>
#include <cstdio>
#include <memory>
#include <muster/muster.h>
#include <stdexcept>
#include <string>

#include "examples/common/is_trained.h"
#include "examples/image_folder/net.h"
#include "examples/image_folder/options.h"

namespace {

namespace transforms = muster::transforms;

transforms::Compose train_transform(std::int64_t size) {
  return transforms::Compose(
      {transforms::RandomResizedCrop(size, {.scale = {0.6, 1}}), transforms::RandomHorizontalFlip(),
       transforms::ColorJitter({.brightness = 0.2, .contrast = 0.2}),
       transforms::ToDtype(at::kFloat, {.scale = true}), transforms::Normalize({0.5}, {0.25})});
}

transforms::Compose test_transform(std::int64_t size) {
  return transforms::Compose({transforms::Resize(size), transforms::CenterCrop(size),
                              transforms::ToDtype(at::kFloat, {.scale = true}),
                              transforms::Normalize({0.5}, {0.25})});
}

struct Data {
  explicit Data(const Options& options)
      : train_images(options.data_dir + "/train"),
        test_images(options.data_dir + "/val"),
        train(train_images, train_transform(options.image_size)),
        test(test_images, test_transform(options.image_size)) {
    if (train_images.classes() != test_images.classes())
      throw std::runtime_error(train_images.name() + " and " + test_images.name() +
                               " have different class folders: give them the same");
  }
  muster::ImageFolder train_images, test_images;
  muster::Transformed<muster::Example, transforms::Compose> train, test;
};

std::unique_ptr<Data> load_data(const Options& options) {
  try {
    return std::make_unique<Data>(options);
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "train_image_folder: %s (fashion_mnist_jpegs writes a suitable folder)\n",
                 error.what());
    return nullptr;
  }
}

muster::DataLoaderOptions loader_options(const Options& options) {
  return {.batch_size = options.batch_size,
          .num_workers = options.num_workers,
          .pin_memory = true,
          .seed = options.seed,
          .bad_sample = options.skip_bad ? muster::BadSample::kSkip : muster::BadSample::kStop};
}

// Prints how many images each rank has skipped since it started; a bad image counts in every epoch.
void print_left_out(std::int64_t mine, const muster::Job& job) {
  std::string counts;
  for (int rank = 0; rank < job.world_size(); ++rank) {
    const std::int64_t count = muster::all_reduce(job, rank == job.rank() ? mine : 0);
    counts += (rank == 0 ? "" : ", ") + std::to_string(count) + " on rank " + std::to_string(rank);
  }
  if (job.rank() == 0) std::printf("bad images left out: %s\n", counts.c_str());
}

// Adds skipped images to `left_out`. Returns false if the result could not be saved.
bool train(muster::DistributedDataParallel<NetImpl>& model, const Data& data, const Options& options,
           const muster::Job& job, std::int64_t& left_out) {
  torch::optim::AdamW optimizer(model.parameters(), torch::optim::AdamWOptions(options.lr));
  auto shuffled = loader_options(options);
  shuffled.device = job.device();
  shuffled.shuffle = true;
  muster::DataLoader loader(data.train, shuffled, job);
  muster::Checkpointer checkpoints(job, {.every = options.checkpoint_every});
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
    left_out += std::ssize(loader.info().skipped);
    optimizer.zero_grad();
    const auto loss = torch::nn::functional::cross_entropy(model(batch.data), batch.target);
    loss.backward();
    optimizer.step();
    checkpoints.step(state);
    progress.loss(loss);
    progress.after_step(checkpoints.steps());
    fail_if_asked(options.fail_at, job.rank(), job.restart_count(), checkpoints.steps());
    if (checkpoints.steps() >= steps) break;
  }
  return checkpoints.save(state);
}

// The share of test images classified correctly. Each rank classifies its part; each image counts once.
double test_accuracy(NetImpl& net, const Data& data, const Options& options, const muster::Job& job,
                     std::int64_t& left_out) {
  const torch::NoGradGuard no_grad;
  net.eval();
  muster::Accuracy accuracy(job);
  auto once = loader_options(options);
  once.uneven_ranks = muster::UnevenRanks::kKeep;
  once.device = job.device();
  muster::DataLoader loader(data.test, once, job);
  for (auto& batch : loader) {
    left_out += std::ssize(loader.info().skipped);
    accuracy.update(net.forward(batch.data), batch.target);
  }
  return accuracy.compute();
}

}  // namespace

int main(int argc, char** argv) {
  auto job = muster::init();
  const Options options = parse_options(argc, argv);
  const auto data = load_data(options);
  if (!data) return 2;
  const auto classes = std::ssize(data->train_images.classes());
  if (job.rank() == 0)
    std::printf("%ld images of %ld classes\n", static_cast<long>(data->train.size()),
                static_cast<long>(classes));

  muster::seed_everything(options.seed);
  Net net(classes);
  net->to(job.device());
  muster::DistributedDataParallel model(net, job);
  std::int64_t left_out = 0;
  if (!train(model, *data, options, job, left_out)) {
    std::fprintf(stderr, "train_image_folder: the last step could not be saved\n");
    return 1;
  }
  const double share = test_accuracy(*net, *data, options, job, left_out);
  if (job.rank() == 0) std::printf("test accuracy %.4f\n", share);
  if (options.skip_bad) print_left_out(left_out, job);
  return 0;
}
