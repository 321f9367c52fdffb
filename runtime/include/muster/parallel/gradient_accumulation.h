// Makes one optimizer step for several batches, as Accelerate's accumulate() does. The gradients of the
// batches add up, and only the last backward pass reduces them.
//
//   muster::GradientAccumulation accumulation(model, 4);
//   for (auto& batch : loader.epochs(10)) {
//     const auto part = accumulation.part(loader.batch() + 1 == loader.batches_per_epoch());
//     (loss_of(model(batch.data), batch.target) * part.scale()).backward();
//     if (!part.is_last()) continue;
//     optimizer.step();
//     optimizer.zero_grad();
//     checkpoints.step(state);
//   }
//
// `model` is a DistributedDataParallel, or a module in a single process. Run the forward and backward pass
// while the part exists. A checkpoint contains whole steps: save where is_last(). All ranks must call part()
// with the same arguments. Only the training thread may use a GradientAccumulation.
#pragma once

#include <cstdint>
#include <muster/parallel/distributed_data_parallel.h>
#include <optional>
#include <stdexcept>
#include <string>

namespace muster {

template <class Model>
class GradientAccumulation {
 public:
  class [[nodiscard]] Part {
   public:
    bool is_last() const { return is_last_; }
    // Returns the factor for the loss of a part: 1 / steps.
    double scale() const { return scale_; }

   private:
    friend class GradientAccumulation;
    Part(Model& model, bool is_last, double scale) : is_last_(is_last), scale_(scale) {
      if constexpr (requires { model.no_sync(); }) {
        if (!is_last) no_sync_.emplace(model.no_sync());
      }
    }
    bool is_last_;
    double scale_;
    std::optional<NoSync> no_sync_;
  };

  // Throws std::invalid_argument if steps < 1.
  GradientAccumulation(Model& model, std::int64_t steps) : model_(model), steps_(steps) {
    if (steps < 1)
      throw std::invalid_argument("GradientAccumulation: steps is " + std::to_string(steps) +
                                  "; it must be at least 1");
  }

  // Begins the next batch. Set `ends` if no batch follows this one, as at the end of an epoch. This batch
  // then completes its step.
  Part part(bool ends = false) {
    ++done_;
    const bool is_last = done_ == steps_ || ends;
    if (is_last) done_ = 0;
    return Part(model_, is_last, 1.0 / static_cast<double>(steps_));
  }

 private:
  Model& model_;
  std::int64_t steps_;
  std::int64_t done_ = 0;  // parts of the current step
};

}  // namespace muster
