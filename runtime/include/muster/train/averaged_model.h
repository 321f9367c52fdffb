// An average of a model's parameters over its training, exponential (EMA) or with equal weights (SWA):
// torch.optim.swa_utils.AveragedModel.
//
//   Net average;  // of the same architecture
//   muster::AveragedModel ema(net, average, {.decay = 0.999});
//   state.add("ema", average);            // before restore(): load_model finds it by .name = "ema"
//   state.add("ema_count", ema);
//   for (...) { ...; optimizer.step(); ema.update_parameters(); }
//   average.eval();
//
// Both models must outlive the AveragedModel. Data-parallel ranks have equal parameters, so their averages
// are equal without communication. Only the training thread may use an AveragedModel.
#pragma once

#include <cstdint>
#include <functional>
#include <muster/comm/detail/module.h>
#include <muster/comm/group.h>
#include <optional>

namespace muster {

class LoadedState;
class SavedState;

struct AveragedModelOptions {
  // At each update, the average becomes `decay * average + (1 - decay) * model`. If `decay` is empty, the
  // average is the mean of the model's values at all updates.
  std::optional<double> decay = std::nullopt;
  // true: buffers of floating-point numbers are averaged too. false: they are copied from the model. Buffers
  // of integers, such as BatchNorm's num_batches_tracked, are always copied. (Python would average them.)
  bool use_buffers = false;
};

class AveragedModel {
 public:
  // Throws std::invalid_argument if the models differ or are one and the same, or if the decay is not between
  // 0 and 1.
  template <detail::IsModel Model, detail::IsModel Average>
  AveragedModel(Model& model, Average& average, const AveragedModelOptions& options = {})
      : AveragedModel(detail::module_of(model), detail::module_of(average), options, 0) {}

  void update_parameters();  // the first call copies the model
  std::int64_t n_averaged() const { return n_averaged_; }

  // Saves the number of updates; add the average itself to the TrainState as a module.
  void save(SavedState& to) const;
  void load(LoadedState& from);

 private:
  AveragedModel(torch::nn::Module& model, torch::nn::Module& average, const AveragedModelOptions& options,
                int);

  torch::nn::Module& model_;
  torch::nn::Module& average_;
  AveragedModelOptions options_;
  std::int64_t n_averaged_ = 0;
};

namespace detail {
void update_batch_norm(torch::nn::Module& module, const Group* group,
                       const std::function<void()>& forward_all);
}  // namespace detail

// Recomputes the running mean and variance of all BatchNorm layers from the batches of all ranks. It is
// torch.optim.swa_utils.update_bn() for a group.
// `forward_all` calls the module's forward() with this rank's batches. It must not call a
// DistributedDataParallel's forward(), which would send rank 0's buffers to all ranks.
// Afterwards all ranks have the same values: the mean over the batches of all ranks, where each batch has the
// same weight. Ranks can have different numbers of batches. If the model has a SyncBatchNorm, they must have
// equally many, because a SyncBatchNorm communicates in each batch.
template <detail::IsModel Model>
void update_bn(Model& model, const Group& group, const std::function<void()>& forward_all) {
  detail::update_batch_norm(detail::module_of(model), &group, forward_all);
}
// As above, for a single process.
template <detail::IsModel Model>
void update_bn(Model& model, const std::function<void()>& forward_all) {
  detail::update_batch_norm(detail::module_of(model), nullptr, forward_all);
}

}  // namespace muster
