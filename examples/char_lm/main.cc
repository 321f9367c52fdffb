// Trains a small GPT on the characters of a text (default: Debian's licences), then generates text with it:
//
//   launch --gpus-per-node 2 --checkpoint-dir DIR train_char_lm
#include <algorithm>
#include <cstdio>
#include <memory>
#include <muster/muster.h>
#include <optional>
#include <stdexcept>

#include "examples/char_lm/gpt.h"
#include "examples/char_lm/options.h"
#include "examples/char_lm/text_data.h"
#include "examples/common/is_trained.h"
#include "examples/common/parameter_digest.h"

namespace {

constexpr std::int64_t kLossSteps = 50;  // the final loss is the mean of these last steps

muster::CommHook comm_hook(const std::string& name) {
  if (name == "fp16") return muster::CommHook::kFp16Compress;
  return name == "bf16" ? muster::CommHook::kBf16Compress : muster::CommHook::kNone;
}

class Trainer {
 public:
  Trainer(muster::DistributedDataParallel<GptImpl>& model, const TextData& data, const Options& options,
          const muster::Job& job)
      : model_(model),
        options_(options),
        job_(job),
        optimizer_(model.parameters(),
                   torch::optim::AdamWOptions(options.lr).betas({0.9, 0.95}).weight_decay(0.1)),
        loader_(data.tokens,
                {.batch_size = options.batch_size,
                 .shuffle = true,
                 .num_workers = options.num_workers,
                 .pin_memory = true,
                 .drop_last = true,
                 .seed = options.seed,
                 .device = job.device()},
                job),
        loss_(job) {}

  // False if the result could not be saved.
  bool train() {
    muster::Checkpointer checkpoints(job_, {.every = options_.checkpoint_every});
    auto state = muster::TrainState(model_, optimizer_, loader_);
    const std::int64_t resumed = checkpoints.restore(state);
    if (resumed > 0 && job_.rank() == 0) std::printf("resumed at step %ld\n", static_cast<long>(resumed));

    const std::int64_t steps = step_count();
    if (is_trained(job_.rank() == 0, resumed, steps)) return true;
    muster::ProgressBar progress(
        {.first_step = resumed,
         .total_steps = steps,
         .samples_per_step = options_.batch_size * options_.accumulate * job_.world_size()});
    std::int64_t part = 0;
    double loss = 0;
    for (auto& batch : loader_.epochs(options_.epochs)) {
      const bool last = ++part == options_.accumulate;
      loss += backward(batch, last) / static_cast<double>(options_.accumulate);
      if (!last) continue;
      set_learning_rate(optimizer_, options_.lr, checkpoints.steps(), steps);
      if (options_.clip_grad_norm > 0) muster::clip_grad_norm_(model_, options_.clip_grad_norm);
      optimizer_.step();
      optimizer_.zero_grad();
      checkpoints.step(state);
      progress.loss(loss);
      progress.after_step(checkpoints.steps());
      fail_if_asked(options_.fail_at, job_.rank(), job_.restart_count(), checkpoints.steps());
      if (checkpoints.steps() > steps - kLossSteps) loss_.update(loss);
      if (checkpoints.steps() >= steps) break;
      part = 0;
      loss = 0;
    }
    return checkpoints.save(state);
  }

  // The mean over all ranks and the last steps; NaN if this run made no step.
  double loss() const { return loss_.compute(); }

 private:
  std::int64_t step_count() const {
    const std::int64_t steps = options_.epochs * loader_.batches_per_epoch() / options_.accumulate;
    return options_.max_steps > 0 ? std::min(steps, options_.max_steps) : steps;
  }

  // Accumulates gradients; only the last part of a step reduces them over the ranks.
  double backward(const muster::Batch& batch, bool last) {
    std::optional<muster::NoSync> alone;
    if (!last) alone.emplace(model_.no_sync());
    const auto logits = model_(batch.data);
    const auto loss = torch::nn::functional::cross_entropy(logits.flatten(0, 1), batch.target.flatten());
    (loss / options_.accumulate).backward();
    return loss.item<double>();
  }

  muster::DistributedDataParallel<GptImpl>& model_;
  const Options& options_;
  const muster::Job& job_;
  torch::optim::AdamW optimizer_;
  muster::DataLoader<muster::Example> loader_;
  muster::MeanMetric loss_;
};

std::string generate(GptImpl& net, const Text& text, const Options& options, const c10::Device& device) {
  const torch::NoGradGuard no_grad;
  net.eval();
  auto generator = at::make_generator<at::CPUGeneratorImpl>(options.seed);
  std::string written;
  auto tokens = torch::full({1, 1}, text.token_of('\n'), torch::kLong);
  for (std::int64_t i = 0; i < options.generate; ++i) {
    const auto seen = tokens.slice(1, std::max<std::int64_t>(0, tokens.size(1) - options.model.context));
    const auto logits = net.forward(seen.to(device)).select(1, -1).cpu();
    const auto next = torch::multinomial(torch::softmax(logits / 0.8, -1), 1, false, generator);
    tokens = torch::cat({tokens, next}, 1);
    written += text.character_of(next.item<std::int64_t>());
  }
  return written;
}

}  // namespace

int main(int argc, char** argv) {
  auto job = muster::init();
  const Options options = parse_options(argc, argv);
  std::unique_ptr<TextData> data;
  try {
    data = std::make_unique<TextData>(options.text, options.token_dir, options.model.context);
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "train_char_lm: %s\n", error.what());
    return 2;
  }

  muster::seed_everything(options.seed);
  GptOptions gpt = options.model;
  gpt.vocabulary = data->text.vocabulary_size();
  Gpt net(gpt);
  net->to(job.device());
  if (job.rank() == 0 && job.restart_count() == 0) {
    const auto example = torch::zeros({options.batch_size, options.model.context},
                                      torch::dtype(torch::kLong).device(job.device()));
    std::printf("%ld characters, %ld different\n%s", static_cast<long>(data->text.size()),
                static_cast<long>(data->text.vocabulary_size()),
                muster::summary(net, example).table().c_str());
  }
  muster::DistributedDataParallel model(net, job, {.comm_hook = comm_hook(options.comm_hook)});
  // All ranks have equal parameters; each draws its own dropout.
  muster::seed_everything(options.seed + 1 + static_cast<std::uint64_t>(job.rank()));

  Trainer trainer(model, *data, options, job);
  if (!trainer.train()) {
    std::fprintf(stderr, "train_char_lm: the last step could not be saved\n");
    return 1;
  }
  const auto profile = muster::step_profile(job);
  const double loss = trainer.loss();
  if (job.rank() != 0) return 0;
  std::printf("%sloss %.4f\nparameters xxh3 %s\n", profile.table().c_str(), loss,
              parameter_digest(*net).c_str());
  if (options.generate > 0)
    std::printf("--- generated text ---\n%s\n", generate(*net, data->text, options, job.device()).c_str());
  return 0;
}
