// The state of optimizers by the names of the parameters it belongs to.
//
// torch keeps it by address, so that its own files do not fit another process's parameters by more than their
// order.
#pragma once

#include <memory>
#include <muster/checkpoint/state_part.h>
#include <string>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <utility>
#include <vector>

namespace muster {

// With what stands before the names of its parameters.
using NamedModules = std::vector<std::pair<std::string, torch::nn::Module*>>;

// `key` stands before all names. std::invalid_argument if the optimizer is of an unknown kind or has a
// parameter that is none of the modules'. All must outlive the part.
std::unique_ptr<StatePart> make_optimizer_part(const std::string& key, const NamedModules& modules,
                                               torch::optim::Optimizer& optimizer);

}  // namespace muster
