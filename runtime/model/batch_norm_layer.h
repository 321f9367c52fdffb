// Recognizes the BatchNorm layers of LibTorch and of Muster, which have no common base class.
#pragma once

#include <muster/model/sync_batch_norm.h>

namespace muster {

// If the module is a BatchNorm layer, calls use() with a reference of the layer's own type. Otherwise it does
// nothing.
template <class Use>
void with_batch_norm(torch::nn::Module& module, const Use& use) {
  if (auto* const one = module.as<torch::nn::BatchNorm1dImpl>()) use(*one);
  if (auto* const two = module.as<torch::nn::BatchNorm2dImpl>()) use(*two);
  if (auto* const three = module.as<torch::nn::BatchNorm3dImpl>()) use(*three);
  if (auto* const sync = module.as<SyncBatchNormImpl>()) use(*sync);
}

}  // namespace muster
