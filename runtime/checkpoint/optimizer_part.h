// Saves and loads an optimizer's state by the names of its parameters.
//
// torch keeps that state by the parameters' addresses, so torch's own files can match the parameters of
// another process only by their order. Use the parts on the training thread.
#pragma once

#include <memory>
#include <muster/checkpoint/state_part.h>
#include <string>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <utility>
#include <vector>

namespace muster {

// Modules, each with the prefix of its parameters' names.
using NamedModules = std::vector<std::pair<std::string, torch::nn::Module*>>;

// `key` is the prefix of all names in the checkpoint. Throws std::invalid_argument if the optimizer is of an
// unknown kind, or has a parameter that is not in any of the modules. Modules and optimizer must outlive the
// part.
std::unique_ptr<StatePart> make_optimizer_part(const std::string& key, const NamedModules& modules,
                                               torch::optim::Optimizer& optimizer);

}  // namespace muster
