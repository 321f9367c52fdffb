#include <cstdio>
#include <muster/comm/job.h>
#include <muster/train/progress_bar.h>
#include <torch/torch.h>
#include <unistd.h>

#include "runtime/comm/job_state.h"
#include "runtime/train/progress_line.h"

namespace muster {

struct ProgressBar::State {
  ProgressBarOptions options;
  std::weak_ptr<Job::State> job;  // empty: the bar reports nothing to a job
  bool shown = true;
  std::int64_t world_size = 1;
  ProgressLine line;
  at::Tensor loss_tensor{};  // the newest loss, if not read yet
  std::optional<double> loss{};
  std::int64_t samples = 0;      // of all ranks since the start
  std::int64_t own_samples = 0;  // of this rank in the last step
  std::int64_t step = 0;
  std::int64_t printed_step = -1;

  void describe() const {
    if (const auto told = job.lock()) told->reports.describe_step(loss, own_samples);
  }
  void print(ProgressLine::Time now) {
    if (loss_tensor.defined()) loss = std::exchange(loss_tensor, at::Tensor()).item<double>();
    printed_step = step;
    std::fputs(line.text(step, loss, samples, now).c_str(), stdout);
    std::fflush(stdout);
  }
};

ProgressBar::ProgressBar(const ProgressBarOptions& options) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  auto job = newest_job_state();
  state_ = std::make_unique<State>(
      State{.options = options,
            .job = job,
            .shown = job == nullptr || job->world.rank == 0,
            .world_size = job == nullptr ? 1 : job->world.world_size,
            .line = ProgressLine({.first = options.first_step, .total = options.total_steps}, terminal,
                                 std::chrono::steady_clock::now()),
            .step = options.first_step});
}

ProgressBar::ProgressBar(ProgressBar&&) noexcept = default;

ProgressBar::~ProgressBar() {
  if (state_ == nullptr || !state_->shown) return;
  // The loop may have ended early. Then the bar prints the last step. It does not print the loss, because
  // reading the loss from the device throws if the device has failed.
  state_->loss_tensor = at::Tensor();
  if (state_->step != state_->printed_step && state_->step > state_->options.first_step)
    state_->print(std::chrono::steady_clock::now());
  std::fputs(state_->line.end().c_str(), stdout);
}

void ProgressBar::loss(const at::Tensor& value) {
  state_->loss_tensor = value.detach();
}

void ProgressBar::loss(double value) {
  state_->loss_tensor = at::Tensor();
  state_->loss = value;
  state_->describe();
}

void ProgressBar::after_step(std::int64_t step, std::int64_t samples) {
  State& of = *state_;
  of.step = step;
  of.samples += of.options.samples_per_step > 0 ? of.options.samples_per_step : samples * of.world_size;
  of.own_samples = samples > 0 ? samples : of.options.samples_per_step / of.world_size;
  of.describe();  // with the newest loss, until the next step reports its own
  const auto now = std::chrono::steady_clock::now();
  if (of.shown && of.line.is_due(step, now)) of.print(now);
}

}  // namespace muster
