// Transfer learning: a backbone that has learned five classes of Fashion-MNIST learns the other five. First
// the backbone is frozen and a new head learns; then the whole network learns:
//
//   launch --gpus-per-node 2 --checkpoint-dir backbone train_transfer_learning
//   launch --gpus-per-node 2 --checkpoint-dir transfer train_transfer_learning \
//     --first-class 5 --from backbone
#include <algorithm>
#include <cstdio>
#include <memory>
#include <muster/muster.h>
#include <stdexcept>
#include <torch/torch.h>
#include <vector>

#include "examples/common/is_trained.h"
#include "examples/transfer_learning/options.h"

namespace {

constexpr std::int64_t kClasses = 5;
constexpr muster::IdxNormalization kNormalization{.mean = 0.2860F, .stddev = 0.3530F};

// The images of five classes, with labels 0 to 4, expanded to the three channels that the network takes.
class FiveClasses : public muster::Dataset<> {
 public:
  FiveClasses(const std::string& images, const std::string& labels, std::int64_t first_class,
              std::int64_t most_images)
      : all_(images, labels, kNormalization), first_class_(first_class) {
    for (std::int64_t i = 0; i < all_.size() && (most_images == 0 || size() < most_images); ++i) {
      const auto label = all_.get(i).target.item<std::int64_t>() - first_class;
      if (label >= 0 && label < kClasses) places_.push_back(i);
    }
  }
  std::int64_t size() const override { return std::ssize(places_); }
  muster::Example get(std::int64_t index) const override {
    const muster::Example example = all_.get(places_.at(static_cast<std::size_t>(index)));
    return {.data = example.data.expand({3, -1, -1}), .target = example.target - first_class_};
  }
  std::string name() const override { return all_.name(); }

 private:
  muster::IdxDataset all_;
  std::int64_t first_class_;
  std::vector<std::int64_t> places_;
};

struct Data {
  explicit Data(const Options& options)
      : train(options.data_dir + "/train-images-idx3-ubyte.gz",
              options.data_dir + "/train-labels-idx1-ubyte.gz", options.first_class, options.train_images),
        test(options.data_dir + "/t10k-images-idx3-ubyte.gz", options.data_dir + "/t10k-labels-idx1-ubyte.gz",
             options.first_class, 0) {}
  FiveClasses train;
  FiveClasses test;
};

// Loads the backbone of another training, and puts a new head on it.
void take_backbone(muster::models::ResNet& net, const std::string& from) {
  muster::load_model(net, from);
  net->fc = net->replace_module("fc", torch::nn::Linear(net->fc->options.in_features(), kClasses));
}

using Model = muster::DistributedDataParallel<muster::models::ResNetImpl>;

// Chooses what learns in this epoch. Frozen BatchNorm layers keep their statistics too.
void begin_epoch(muster::models::ResNet& net, bool frozen) {
  if (frozen)
    muster::freeze(net, "");
  else
    muster::unfreeze(net, "");
  muster::unfreeze(net, "fc");
  net->train(!frozen);
}

bool train(muster::models::ResNet& net, const Data& data, const Options& options, const muster::Job& job) {
  // Parts freeze and thaw later, so each step must look for unused parameters.
  Model model(net, job, {.find_unused_parameters = !options.from.empty()});
  const double backbone_lr = options.from.empty() ? options.lr : options.lr / 10;
  muster::FusedAdamW optimizer(
      muster::param_groups<torch::optim::AdamWOptions>(net, {{"", {backbone_lr}}, {"fc", {options.lr}}}),
      torch::optim::AdamWOptions(options.lr));
  optimizer.param_groups().front().options().set_lr(
      backbone_lr);  // LibTorch 2.12 treats 1e-3, its default, as not set
  muster::DataLoader loader(
      data.train,
      {.batch_size = options.batch_size, .shuffle = true, .seed = options.seed, .device = job.device()}, job);
  muster::Checkpointer checkpoints(job, {.every = options.checkpoint_every});
  auto state = muster::TrainState(model, optimizer, loader);
  const std::int64_t resumed = checkpoints.restore(state);
  std::int64_t steps = options.epochs * loader.batches_per_epoch();
  if (options.max_steps > 0) steps = std::min(steps, options.max_steps);
  if (is_trained(job.rank() == 0, resumed, steps)) return true;
  muster::ProgressBar progress({.first_step = resumed,
                                .total_steps = steps,
                                .samples_per_step = options.batch_size * job.world_size()});
  std::int64_t epoch = -1;
  for (auto& batch : loader.epochs(options.epochs)) {
    if (epoch != loader.epoch()) {
      epoch = loader.epoch();
      begin_epoch(net, !options.from.empty() && epoch < options.frozen_epochs);
    }
    const auto loss = torch::nn::functional::cross_entropy(model(batch.data), batch.target);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    checkpoints.step(state);
    progress.loss(loss);
    progress.after_step(checkpoints.steps());
    if (checkpoints.steps() >= steps) break;
  }
  return checkpoints.save(state);
}

double test_accuracy(muster::models::ResNet& net, const Data& data, const muster::Job& job) {
  const torch::NoGradGuard no_grad;
  net->eval();
  muster::Accuracy accuracy(job);
  muster::DataLoader loader(data.test, {.batch_size = 500, .device = job.device()}, job);
  for (auto& batch : loader) accuracy.update(net(batch.data), batch.target, loader.info().mask());
  return accuracy.compute();
}

}  // namespace

int main(int argc, char** argv) {
  auto job = muster::init();
  const Options options = parse_options(argc, argv);
  muster::seed_everything(options.seed);
  muster::models::ResNet net(muster::models::ResNetOptions{
      .blocks = {1, 1, 1, 1}, .bottleneck = false, .width = options.width, .classes = kClasses});
  std::unique_ptr<Data> data;
  try {
    data = std::make_unique<Data>(options);
    if (!options.from.empty()) take_backbone(net, options.from);
  } catch (const std::exception& error) {
    std::fprintf(stderr,
                 "train_transfer_learning: %s (install the package dataset-fashion-mnist, "
                 "or name a folder with --data-dir)\n",
                 error.what());
    return 2;
  }
  net->to(job.device());
  if (!train(net, *data, options, job)) {
    std::fprintf(stderr, "train_transfer_learning: the last step could not be saved\n");
    return 1;
  }
  const double share = test_accuracy(net, *data, job);
  if (job.rank() == 0) std::printf("test accuracy %.4f\n", share);
  return 0;
}
