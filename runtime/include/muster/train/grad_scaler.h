// Keeps fp16 gradients from becoming zero, as PyTorch's torch.amp.GradScaler does. A GradScaler multiplies
// the loss by a scale, and divides the gradients by the same scale. If a gradient is infinite or NaN, it
// skips the step and halves the scale.
//
//   muster::GradScaler scaler(job);
//   state.add("scaler", scaler);
//   for (auto& batch : loader.epochs(10)) {
//     scaler.scale(loss).backward();  // a loss of a muster::autocast
//     scaler.unscale_(optimizer);     // before clip_grad_norm_ only
//     scaler.step(optimizer);
//     scaler.update();
//   }
//
// A GradScaler works with any optimizer, also with several. With GradientAccumulation, call scale() in each
// part of a step, and the other functions only in the last part. If a gradient is not finite on one rank, all
// ranks of the group skip the step. So unscale_() is collective, and a step() without an unscale_() before it
// is collective too. Only the training thread may use a GradScaler. Calls in another order throw
// std::logic_error.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <map>
#include <muster/comm/group.h>
#include <optional>
#include <torch/optim/optimizer.h>

namespace muster {

class LoadedState;
class SavedState;

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;     // after growth_interval finite steps in a row
  double backoff_factor = 0.5;  // after each step that is not finite
  std::int64_t growth_interval = 2000;
  bool enabled = true;  // false: scales nothing, and step() is the optimizer's
};

class GradScaler {
 public:
  // Throws std::invalid_argument, which names the option that is wrong.
  explicit GradScaler(Group group, const GradScalerOptions& options = {});

  at::Tensor scale(const at::Tensor& loss) const;
  // Divides the gradients by the scale. It may be called at most once per step. If a gradient is fp16, throws
  // std::invalid_argument.
  void unscale_(torch::optim::Optimizer& optimizer);
  // Steps the optimizer, unless a gradient of any rank is not finite. Returns true if the optimizer stepped.
  bool step(torch::optim::Optimizer& optimizer);
  // Adjusts the scale. Call it after the steps of all optimizers. If `new_scale` is given, it becomes the
  // scale.
  void update(std::optional<double> new_scale = std::nullopt);

  double get_scale() const;             // 1 if disabled. Both getters wait for a GPU
  std::int64_t growth_tracker() const;  // finite steps in a row
  bool is_enabled() const { return options_.enabled; }
  const GradScalerOptions& options() const { return options_; }

  // TrainState calls these. The names in a checkpoint are those of Python's state_dict().
  void save(SavedState& to) const;
  void load(LoadedState& from);

 private:
  enum class Stage { kUnscaled, kStepped };
  struct OfOptimizer {
    Stage stage;
    at::Tensor found_inf;  // not 0: a gradient was not finite
  };

  Group group_;
  GradScalerOptions options_;
  at::Tensor scale_;                                            // one float
  at::Tensor growth_tracker_;                                   // one int
  std::map<torch::optim::Optimizer*, OfOptimizer> optimizers_;  // since the last update
};

}  // namespace muster
