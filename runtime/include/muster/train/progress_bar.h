// A training's progress in one line: steps, loss, samples per second, time left.
//
//   auto bar = muster::progress(loader, 10);  // loader.epochs(10); without a number: one epoch
//   for (auto& batch : bar) {
//     ...
//     bar.loss(loss);
//   }
//
// Rank 0 prints to stdout. If stdout is a terminal, rank 0 draws a bar, and draws it again in the same place.
// Otherwise it prints a line every few seconds, and one at the end. If the loss is a tensor, rank 0 reads it
// only when it prints, so the other steps do not wait for the GPU. `launch top` shows the numbers of each
// rank. But if the loss is a tensor, `launch top` shows it for rank 0 only. Only the training thread may use
// a progress bar.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <iterator>
#include <memory>
#include <muster/data/data_loader.h>
#include <optional>
#include <stdexcept>

namespace muster {

struct ProgressBarOptions {
  std::int64_t first_step = 0;        // steps done before
  std::int64_t total_steps = 0;       // 0: unknown
  std::int64_t samples_per_step = 0;  // over all ranks; 0: computed from after_step()'s samples
};

// A progress bar for loops without a loader.
class ProgressBar {
 public:
  explicit ProgressBar(const ProgressBarOptions& options = {});
  ProgressBar(ProgressBar&&) noexcept;
  ~ProgressBar();

  void loss(const at::Tensor& value);  // one element
  void loss(double value);
  // Reports that `step` steps are done, and that this rank had `samples` samples in the last one.
  void after_step(std::int64_t step, std::int64_t samples = 0);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

template <class Sample, class BatchType>
class ProgressLoop {
 public:
  using Loader = DataLoader<Sample, BatchType>;
  using Inner = typename Loader::Iterator;

  ProgressLoop(Loader& loader, std::optional<std::int64_t> epochs) : loader_(&loader), epochs_(epochs) {}

  class Iterator {
   public:
    using value_type = BatchType;
    using difference_type = std::ptrdiff_t;
    Iterator(ProgressLoop* loop, Inner inner) : loop_(loop), inner_(std::move(inner)) {}
    BatchType& operator*() const { return *inner_; }
    Iterator& operator++() {
      loop_->step_done();
      ++inner_;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return inner_ == std::default_sentinel; }

   private:
    ProgressLoop* loop_;
    Inner inner_;
  };

  Iterator begin() {
    Inner inner = epochs_ ? loader_->epochs(*epochs_).begin() : loader_->begin();
    const std::int64_t batches = batches_per_epoch();
    const BatchInfo& info = loader_->info();
    step_ = info.batch + (epochs_ ? info.epoch * batches : 0);
    bar_.emplace(ProgressBarOptions{.first_step = step_, .total_steps = batches * epochs_.value_or(1)});
    return {this, std::move(inner)};
  }
  std::default_sentinel_t end() const { return {}; }

  // Sets the loss of the current step.
  void loss(const at::Tensor& value) { bar_->loss(value); }
  void loss(double value) { bar_->loss(value); }

 private:
  void step_done() { bar_->after_step(++step_, static_cast<std::int64_t>(loader_->info().indices.size())); }
  std::int64_t batches_per_epoch() const {
    try {
      return loader_->batches_per_epoch();
    } catch (const std::logic_error&) {
      return 0;  // an iterable dataset has no known size
    }
  }

  Loader* loader_;
  std::optional<std::int64_t> epochs_;
  std::int64_t step_ = 0;
  std::optional<ProgressBar> bar_;
};

// The loader must outlive the loop.
template <class Sample, class BatchType>
ProgressLoop<Sample, BatchType> progress(DataLoader<Sample, BatchType>& loader,
                                         std::optional<std::int64_t> epochs = std::nullopt) {
  return {loader, epochs};
}

}  // namespace muster
