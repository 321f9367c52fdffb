// BatchNorm whose mean and variance in training are those of the batches of all ranks: PyTorch's
// SyncBatchNorm, on CPUs and GPUs.
//
//   muster::convert_sync_batchnorm(net, job);            // all BatchNorm1d, 2d, 3d in it, where they are
//   auto model = muster::DistributedDataParallel(net, job);
//
// In a Sequential a SyncBatchNorm takes the layer's place, with its parameters and contents. Elsewhere the
// layer stays what it is (in C++ a layer cannot be replaced behind the member that names it), and computes as
// one. Names, parameters and checkpoints stay as they were. Ranks may have batches of different sizes, an
// empty one too, and normalize like one process with all of them. A layer that stayed takes no batch of one
// value for each feature, such as one sample for a BatchNorm1d: LibTorch refuses it before this code is
// asked. Name a SyncBatchNorm by the member instead. forward() in training and backward() are collective for
// each layer; eval() asks nobody. Gradients of weight and bias are the rank's own, for
// DistributedDataParallel to reduce. A clone() of a layer that stayed is not converted; that of a
// SyncBatchNorm is one. For the thread of the training.
#pragma once

#include <muster/comm/detail/module.h>
#include <muster/comm/group.h>
#include <torch/nn/modules/batchnorm.h>

namespace muster {

namespace detail {
// In it and all below it.
void synchronize_batch_norms(torch::nn::Module& module, const Group& group);
// The mark of a converted layer's running mean.
bool is_synchronized(const at::Tensor& running_mean);
}  // namespace detail

// All BatchNorm1d, 2d, 3d and SyncBatchNorm of a model. std::invalid_argument names a layer that keeps no
// running statistics.
template <detail::IsModel Model>
void convert_sync_batchnorm(Model& model, const Group& group) {
  detail::synchronize_batch_norms(detail::module_of(model), group);
}

// One of them, for inputs of [batch, features, ...]: muster::SyncBatchNorm(64, job).
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
  // Has the parameters and the contents of this layer from now on.
  template <class Layer>
  void take(const Layer& layer);

  Group group_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace muster
