// Keeps gradients of fp16 from becoming zero: PyTorch's torch.amp.GradScaler. The loss is multiplied by a
// scale, gradients are divided by it, and a step whose gradients have an infinity or a NaN is left out and
// halves the scale.
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
// Of any optimizer, of several, and with GradientAccumulation, where all but scale() comes with the last part
// alone. What one rank of the group finds counts for all of them, so that unscale_(), or step() without it,
// is collective. For the training thread; what it throws of calls in another order is std::logic_error.
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
  double growth_factor = 2;     // after growth_interval steps in a row without an infinity
  double backoff_factor = 0.5;  // at once, of a step with one
  std::int64_t growth_interval = 2000;
  bool enabled = true;  // false: nothing is scaled, and step() is the optimizer's
};

class GradScaler {
 public:
  // std::invalid_argument names the option that is wrong.
  explicit GradScaler(Group group, const GradScalerOptions& options = {});

  at::Tensor scale(const at::Tensor& loss) const;
  // Divides the gradients; once in a step. std::invalid_argument if one is of fp16 itself.
  void unscale_(torch::optim::Optimizer& optimizer);
  // The optimizer's, unless a gradient of any rank is not finite. True: it was made.
  bool step(torch::optim::Optimizer& optimizer);
  // After the steps of all optimizers; or to a scale of the program's own.
  void update(std::optional<double> new_scale = std::nullopt);

  double get_scale() const;             // 1 if it is not enabled. On a GPU these wait for it
  std::int64_t growth_tracker() const;  // steps in a row without an infinity
  bool is_enabled() const { return options_.enabled; }
  const GradScalerOptions& options() const { return options_; }

  // For TrainState, by the names of state_dict().
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
