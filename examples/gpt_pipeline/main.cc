// Trains the GPT of train_char_lm with data and pipeline parallelism; without launch, in one stage:
//
//   launch --gpus-per-node 4 --checkpoint-dir DIR train_gpt_pipeline --stages 2
#include <algorithm>
#include <cstdio>
#include <memory>
#include <muster/muster.h>
#include <stdexcept>

#include "examples/char_lm/gpt.h"
#include "examples/char_lm/text_data.h"
#include "examples/common/is_trained.h"
#include "examples/common/pipelines.h"
#include "examples/gpt_pipeline/options.h"

namespace {

constexpr std::int64_t kLossSteps = 50;  // the final loss is the mean of these last steps

torch::Tensor next_character_loss(const torch::Tensor& logits, const torch::Tensor& target) {
  return torch::nn::functional::cross_entropy(logits.flatten(0, 1), target.flatten());
}

// Returns the mean loss of the last steps; 0 if no step was left. std::runtime_error if saving failed.
double train(muster::PipelineSchedule& schedule, const TextData& data, const Options& options,
             const muster::DeviceMesh& pipelines, const muster::Job& job) {
  torch::optim::AdamW optimizer(schedule.parameters(),
                                torch::optim::AdamWOptions(options.lr).betas({0.9, 0.95}).weight_decay(0.1));
  // All ranks of a pipeline use the same batch: the first stage the text, the last stage the targets.
  muster::DataLoader loader(data.tokens,
                            {.batch_size = options.batch_size,
                             .shuffle = true,
                             .num_workers = options.num_workers,
                             .pin_memory = true,
                             .drop_last = true,
                             .seed = options.seed,
                             .read = has_data(schedule),
                             .device = job.device()},
                            pipelines.get_group("dp"));
  muster::Checkpointer checkpoints(job, {.every = options.checkpoint_every});
  auto state = muster::TrainState(schedule, optimizer, loader);
  const std::int64_t resumed = checkpoints.restore(state);
  if (resumed > 0 && job.rank() == 0) std::printf("resumed at step %ld\n", static_cast<long>(resumed));

  std::int64_t steps = options.epochs * loader.batches_per_epoch();
  if (options.max_steps > 0) steps = std::min(steps, options.max_steps);
  double loss = 0;
  if (is_trained(job.rank() == 0, resumed, steps)) return loss;
  const int replicas = pipelines["dp"].size();
  muster::ProgressBar progress(
      {.first_step = resumed, .total_steps = steps, .samples_per_step = options.batch_size * replicas});
  const std::int64_t counted = std::min(kLossSteps, steps - resumed);
  for (auto& batch : loader.epochs(options.epochs)) {
    set_learning_rate(optimizer, options.lr, checkpoints.steps(), steps);
    schedule.step({.inputs = {batch.data}, .target = batch.target});
    if (options.clip_grad_norm > 0) schedule.clip_grad_norm_(options.clip_grad_norm);
    optimizer.step();
    optimizer.zero_grad();
    checkpoints.step(state);
    const double step_loss = schedule.loss();
    progress.loss(step_loss);
    progress.after_step(checkpoints.steps());
    fail_if_asked(options.fail_at, job.rank(), job.restart_count(), checkpoints.steps());
    if (checkpoints.steps() > steps - counted) loss += step_loss / static_cast<double>(counted);
    if (checkpoints.steps() >= steps) break;
  }
  if (!checkpoints.save(state)) throw std::runtime_error("the last step could not be saved");
  return loss;
}

}  // namespace

int main(int argc, char** argv) {
  auto job = muster::init();
  const Options options = parse_options(argc, argv);
  std::unique_ptr<TextData> data;
  try {
    data = std::make_unique<TextData>(options.text, options.token_dir, options.model.context);
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "train_gpt_pipeline: %s\n", error.what());
    return 2;
  }
  const auto pipelines = make_pipelines("train_gpt_pipeline", job, options.pipeline);
  if (!pipelines) return 2;

  GptOptions gpt = options.model;
  gpt.vocabulary = data->text.vocabulary_size();
  const PipelineModel model{
      .layers = gpt_layers(gpt, options.seed),
      .loss = next_character_loss,
      .microbatch = torch::zeros({options.batch_size / options.pipeline.microbatches, options.model.context},
                                 torch::dtype(torch::kLong).device(job.device()))};
  const auto schedule =
      make_pipeline("train_gpt_pipeline", model, *pipelines, options.pipeline, options.seed);
  if (!schedule) return 2;
  const double loss = train(*schedule, *data, options, *pipelines, job);
  const muster::PipelineProfile profile = schedule->profile();
  if (job.rank() == 0) std::printf("%sloss %.6f\n", profile.text().c_str(), loss);
  print_parameters(schedule->stages().front(), *pipelines);
  return 0;
}
