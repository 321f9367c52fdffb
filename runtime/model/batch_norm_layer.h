// Recognizes the BatchNorm layers of LibTorch and of Muster, which have no common base class.
#pragma once

#include <muster/model/sync_batch_norm.h>

namespace muster {

// Calls use() with the module in its own type if it is a BatchNorm layer.
template <class Use>
void with_batch_norm(torch::nn::Module& module, const Use& use) {
  if (auto* const one = module.as<torch::nn::BatchNorm1dImpl>()) use(*one);
  if (auto* const two = module.as<torch::nn::BatchNorm2dImpl>()) use(*two);
  if (auto* const three = module.as<torch::nn::BatchNorm3dImpl>()) use(*three);
  if (auto* const sync = module.as<SyncBatchNormImpl>()) use(*sync);
}

}  // namespace muster
