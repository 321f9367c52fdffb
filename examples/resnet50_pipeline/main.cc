// Trains ResNet-50 in pipeline stages; without launch, in one stage:
//
//   launch --gpus-per-node 4 --checkpoint-dir DIR train_resnet50_pipeline --stages 4 --data-dir IMAGES
#include <algorithm>
#include <cstdio>
#include <memory>
#include <muster/muster.h>
#include <stdexcept>
#include <string>

#include "examples/common/is_trained.h"
#include "examples/common/pipelines.h"
#include "examples/resnet50_pipeline/options.h"

namespace {

namespace transforms = muster::transforms;

// Generated images: noise plus a sine wave; its number of periods across the image is the class.
class MadeImages : public muster::Dataset<> {
 public:
  static constexpr std::int64_t kClasses = 10;
  MadeImages(std::int64_t count, std::int64_t image_size, std::uint64_t seed)
      : count_(count), image_size_(image_size), seed_(seed) {}
  std::int64_t size() const override { return count_; }
  muster::Example get(std::int64_t index) const override {
    const auto generator =
        at::make_generator<at::CPUGeneratorImpl>(seed_ * 1'000'003 + static_cast<std::uint64_t>(index));
    const std::int64_t label = index % kClasses;
    const auto waves = torch::sin(torch::linspace(0, 6.2832 * static_cast<double>(label), image_size_));
    return {.data = waves + torch::randn({3, image_size_, image_size_}, generator),
            .target = torch::tensor(label)};
  }
  std::string name() const override { return "the generated images"; }

 private:
  std::int64_t count_;
  std::int64_t image_size_;
  std::uint64_t seed_;
};

transforms::Compose train_transform(std::int64_t size) {
  return transforms::Compose(
      {transforms::RandomResizedCrop(size, {.scale = {0.6, 1}}), transforms::RandomHorizontalFlip(),
       transforms::ToDtype(at::kFloat, {.scale = true}), transforms::Normalize({0.5}, {0.25})});
}

transforms::Compose test_transform(std::int64_t size) {
  return transforms::Compose({transforms::Resize(size), transforms::CenterCrop(size),
                              transforms::ToDtype(at::kFloat, {.scale = true}),
                              transforms::Normalize({0.5}, {0.25})});
}

struct Data {
  // std::runtime_error names the folder that cannot be used.
  explicit Data(const Options& options) {
    if (options.data_dir.empty()) {
      train = std::make_unique<MadeImages>(options.made_images, options.image_size, 2 * options.seed);
      test = std::make_unique<MadeImages>(options.made_images, options.image_size, 2 * options.seed + 1);
      return;
    }
    train_images = std::make_unique<muster::ImageFolder>(options.data_dir + "/train");
    test_images = std::make_unique<muster::ImageFolder>(options.data_dir + "/val");
    if (train_images->classes() != test_images->classes())
      throw std::runtime_error(train_images->name() + " and " + test_images->name() +
                               " have different class folders: give them the same");
    classes = std::ssize(train_images->classes());
    using Images = muster::Transformed<muster::Example, transforms::Compose>;
    train = std::make_unique<Images>(*train_images, train_transform(options.image_size));
    test = std::make_unique<Images>(*test_images, test_transform(options.image_size));
  }
  std::unique_ptr<muster::ImageFolder> train_images, test_images;
  std::unique_ptr<muster::Dataset<>> train, test;
  std::int64_t classes = MadeImages::kClasses;
};

// All ranks of a pipeline use the same batch: the first stage the images, the last stage the classes.
muster::DataLoaderOptions loader_options(const muster::PipelineSchedule& schedule, const Options& options,
                                         const muster::Job& job) {
  return {.batch_size = options.batch_size,
          .num_workers = options.num_workers,
          .pin_memory = true,
          .drop_last = true,
          .seed = options.seed,
          .read = has_data(schedule),
          .device = job.device()};
}

void train(muster::PipelineSchedule& schedule, const Data& data, const Options& options,
           const muster::DeviceMesh& pipelines, const muster::Job& job) {
  torch::optim::SGD optimizer(schedule.parameters(),
                              torch::optim::SGDOptions(options.lr).momentum(0.9).weight_decay(1e-4));
  auto shuffled = loader_options(schedule, options, job);
  shuffled.shuffle = true;
  muster::DataLoader loader(*data.train, shuffled, pipelines.get_group("dp"));
  muster::Checkpointer checkpoints(job, {.every = options.checkpoint_every});
  auto state = muster::TrainState(schedule, optimizer, loader);
  const std::int64_t resumed = checkpoints.restore(state);
  if (resumed > 0 && job.rank() == 0) std::printf("resumed at step %ld\n", static_cast<long>(resumed));

  std::int64_t steps = options.epochs * loader.batches_per_epoch();
  if (options.max_steps > 0) steps = std::min(steps, options.max_steps);
  if (is_trained(job.rank() == 0, resumed, steps)) return;
  muster::ProgressBar progress({.first_step = resumed,
                                .total_steps = steps,
                                .samples_per_step = options.batch_size * pipelines["dp"].size()});
  double loss = 0;
  for (auto& batch : loader.epochs(options.epochs)) {
    schedule.step({.inputs = {batch.data}, .target = batch.target});
    optimizer.step();
    optimizer.zero_grad();
    checkpoints.step(state);
    loss = schedule.loss();
    progress.loss(loss);
    progress.after_step(checkpoints.steps());
    fail_if_asked(options.fail_at, job.rank(), job.restart_count(), checkpoints.steps());
    if (checkpoints.steps() >= steps) break;
  }
  if (!checkpoints.save(state)) throw std::runtime_error("the last step could not be saved");
  if (job.rank() == 0) std::printf("loss %.6f\n", loss);
}

// Prints the share of test images classified correctly; the last stages compute it.
void test(muster::PipelineSchedule& schedule, const Data& data, const Options& options,
          const muster::DeviceMesh& pipelines, const muster::Job& job) {
  const auto& stage = schedule.stages().front();
  stage.module()->eval();
  const auto replicas = pipelines.get_group("dp");
  muster::Accuracy accuracy(replicas);
  muster::DataLoader loader(*data.test, loader_options(schedule, options, job), replicas);
  for (auto& batch : loader) {
    const auto outputs = schedule.eval({.inputs = {batch.data}});
    if (stage.is_last()) accuracy.update(outputs.at(0), batch.target);
  }
  if (!stage.is_last()) return;
  const double share = accuracy.compute();
  if (replicas.rank() == 0) std::printf("test accuracy %.4f\n", share);
}

}  // namespace

int main(int argc, char** argv) {
  auto job = muster::init();
  const Options options = parse_options(argc, argv);
  std::unique_ptr<Data> data;
  try {
    data = std::make_unique<Data>(options);
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "train_resnet50_pipeline: %s\n", error.what());
    return 2;
  }
  const auto pipelines = make_pipelines("train_resnet50_pipeline", job, options.pipeline);
  if (!pipelines) return 2;

  const PipelineModel model{
      .layers = muster::PipelineLayers(
          muster::models::resnet_layers({.width = options.width, .classes = data->classes}), options.seed),
      .loss =
          [](const torch::Tensor& logits, const torch::Tensor& target) {
            return torch::nn::functional::cross_entropy(logits, target);
          },
      .microbatch = torch::randn(
          {options.batch_size / options.pipeline.microbatches, 3, options.image_size, options.image_size},
          job.device())};
  const auto schedule =
      make_pipeline("train_resnet50_pipeline", model, *pipelines, options.pipeline, options.seed);
  if (!schedule) return 2;
  train(*schedule, *data, options, *pipelines, job);
  test(*schedule, *data, options, *pipelines, job);
  print_parameters(schedule->stages().front(), *pipelines);
  return 0;
}
