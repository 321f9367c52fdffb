// Trains a multilayer perceptron on Fashion-MNIST, with the hyperparameters of a sweep, and reports its
// accuracy after each epoch:
//
//   launch sweep run examples/fashion_mnist_sweep/sweep.yaml
#include <cstdio>
#include <muster/muster.h>
#include <numeric>
#include <torch/torch.h>

#include "examples/common/flags.h"

namespace {

// Mean and standard deviation of the training images.
constexpr muster::IdxNormalization kNormalization{.mean = 0.2860F, .stddev = 0.3530F};
constexpr std::int64_t kPixels = 28 * 28;
constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kTestBatch = 1000;

struct Options {
  std::int64_t layers = 2;
  std::int64_t units = 64;
  double lr = 1e-3;
  std::int64_t batch_size = 64;
  std::int64_t epochs = 9;
  std::int64_t images = 60'000;  // of the training set
  std::uint64_t seed = 0;
  std::string data_dir = "/usr/share/datasets/fashion-mnist";
};

Options parse_options(int argc, char** argv) {
  Options options;
  Flags flags("train_fashion_mnist_sweep", "Trains a multilayer perceptron on Fashion-MNIST.");
  flags.number("--layers", options.layers, "hidden layers", 1);
  flags.number("--units", options.units, "units of each hidden layer", 1);
  flags.number("--lr", options.lr, "learning rate of Adam", 0);
  flags.number("--batch-size", options.batch_size, "images per worker and step", 1);
  flags.number("--epochs", options.epochs, "times through the training images", 1);
  flags.number("--images", options.images, "use only the first so many training images", 1);
  flags.number("--seed", options.seed, "seed of parameters and image order", 0);
  flags.text("--data-dir", options.data_dir, "folder of the IDX files");
  flags.parse_or_exit(argc, argv);
  return options;
}

torch::nn::Sequential make_net(const Options& options) {
  torch::nn::Sequential net{torch::nn::Flatten()};
  std::int64_t inputs = kPixels;
  for (std::int64_t i = 0; i < options.layers; ++i) {
    net->push_back(torch::nn::Linear(inputs, options.units));
    net->push_back(torch::nn::ReLU());
    inputs = options.units;
  }
  net->push_back(torch::nn::Linear(inputs, kClasses));
  return net;
}

// Over the test images of all ranks.
double accuracy_of(torch::nn::Sequential& net, const muster::IdxDataset& images, const muster::Job& job) {
  const torch::NoGradGuard no_grad;
  muster::Accuracy accuracy(job);
  for (std::int64_t first = job.rank() * kTestBatch; first < images.size();
       first += job.world_size() * kTestBatch) {
    std::vector<std::int64_t> indices;
    for (std::int64_t i = first; i < std::min(first + kTestBatch, images.size()); ++i) indices.push_back(i);
    const muster::Batch batch = images.get_batch(indices);
    accuracy.update(net->forward(batch.data.to(job.device())), batch.target);
  }
  return accuracy.compute();
}

}  // namespace

int main(int argc, char** argv) {
  auto job = muster::init(argc, argv);
  const Options options = parse_options(argc, argv);
  const std::string& folder = options.data_dir;
  const muster::IdxDataset train(folder + "/train-images-idx3-ubyte.gz",
                                 folder + "/train-labels-idx1-ubyte.gz", kNormalization);
  const muster::IdxDataset test(folder + "/t10k-images-idx3-ubyte.gz", folder + "/t10k-labels-idx1-ubyte.gz",
                                kNormalization);
  std::vector<std::int64_t> used(static_cast<std::size_t>(std::min(options.images, train.size())));
  std::iota(used.begin(), used.end(), 0);
  const muster::Subset subset(train, std::move(used));

  muster::seed_everything(options.seed);
  torch::nn::Sequential net = make_net(options);
  net->to(job.device());
  muster::DistributedDataParallel model(net, job);
  torch::optim::Adam optimizer(model.parameters(), options.lr);
  muster::DataLoader loader(
      subset,
      {.batch_size = options.batch_size, .shuffle = true, .seed = options.seed, .device = job.device()}, job);
  const std::int64_t steps_per_epoch = loader.batches_per_epoch();
  muster::Checkpointer checkpoints(job, {.every = steps_per_epoch});
  muster::TrainState state(model, optimizer, loader);
  checkpoints.restore(state);

  for (auto& batch : loader.epochs(options.epochs)) {
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(model(batch.data), batch.target).backward();
    optimizer.step();
    checkpoints.step(state);
    const std::int64_t steps = checkpoints.steps();
    if (steps % steps_per_epoch != 0) continue;
    const double accuracy = accuracy_of(net, test, job);
    if (job.rank() == 0) {
      muster::report("accuracy", accuracy, steps / steps_per_epoch);
      std::printf("epoch %ld accuracy %.4f\n", static_cast<long>(steps / steps_per_epoch), accuracy);
    }
  }
  return checkpoints.save(state) ? 0 : 1;
}
