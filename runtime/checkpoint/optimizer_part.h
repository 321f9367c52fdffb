// The state of torch's optimizers by the name of the parameter it belongs to.
//
// torch keeps it by address, so that its own files do not fit another process's parameters by more than their
// order.
#pragma once

#include <memory>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "runtime/checkpoint/state_part.h"

namespace muster {

// std::invalid_argument if the optimizer is of an unknown kind or has a parameter that is not the module's.
// Both must outlive it.
std::unique_ptr<StatePart> make_optimizer_part(const torch::nn::Module& module,
                                               torch::optim::Optimizer& optimizer);

}  // namespace muster
