// BatchNorm that in training uses the mean and variance of all ranks' batches: PyTorch's SyncBatchNorm, on
// CPUs and GPUs.
//
//   muster::convert_sync_batchnorm(net, job);            // converts every BatchNorm1d, 2d, 3d of the net
//   auto model = muster::DistributedDataParallel(net, job);
//
// - In a Sequential, convert_sync_batchnorm() replaces the layer by a SyncBatchNorm with its parameters and
//   buffers. Elsewhere the layer keeps its type and computes as a SyncBatchNorm, because C++ cannot replace a
//   layer that a member variable refers to. Names, parameters and checkpoints stay the same.
// - Ranks can have batches of different sizes, even empty ones; they normalize like one process with all of
//   the batches.
// - A layer that kept its type refuses a batch with one value per feature, such as one sample for a
//   BatchNorm1d: LibTorch throws before this code runs. Declare the member as a SyncBatchNorm instead.
// - forward() in training and backward() are collective for each layer; in eval mode nothing is collective.
//   Gradients of weight and bias are the rank's own, for DistributedDataParallel to reduce.
// - clone() of a layer that kept its type is not converted; clone() of a SyncBatchNorm is a SyncBatchNorm.
// Only the training thread may use the layers.
#pragma once

#include <muster/comm/detail/module.h>
#include <muster/comm/group.h>
#include <torch/nn/modules/batchnorm.h>

namespace muster {

namespace detail {
// Converts the module and all modules below it.
void synchronize_batch_norms(torch::nn::Module& module, const Group& group);
// synchronize_batch_norms() marks the running mean of each layer that it converts. Returns true if this
// running mean has the mark.
bool is_synchronized(const at::Tensor& running_mean);
}  // namespace detail

// Converts every BatchNorm1d, 2d, 3d and SyncBatchNorm of a model. Throws std::invalid_argument if a layer
// keeps no running statistics; the message names the layer.
template <detail::IsModel Model>
void convert_sync_batchnorm(Model& model, const Group& group) {
  detail::synchronize_batch_norms(detail::module_of(model), group);
}

// A single layer, such as muster::SyncBatchNorm(64, job). Its inputs have the shape [batch, features, ...].
class SyncBatchNormImpl : public torch::nn::BatchNormImplBase<2, SyncBatchNormImpl> {
 public:
  SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, Group group);
  at::Tensor forward(const at::Tensor& input);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;

 protected:
  void _check_input_dim(const at::Tensor& input) override;

 private:
  friend void detail::synchronize_batch_norms(torch::nn::Module& module, const Group& group);
  // Takes over the parameters and buffers of `layer`.
  template <class Layer>
  void take(const Layer& layer);

  Group group_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace muster
