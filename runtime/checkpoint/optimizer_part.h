// Saves and loads the state of an optimizer. In the checkpoint, the state of a parameter has the parameter's
// name.
//
// torch's own files have no names for the parameters: in torch, the state of a parameter belongs to the
// parameter's address in memory. So a process that reads such a file can only match the parameters by their
// order. Use the parts on the training thread.
#pragma once

#include <memory>
#include <muster/checkpoint/state_part.h>
#include <string>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <utility>
#include <vector>

namespace muster {

// A list of modules. The names of a module's parameters begin with the module's prefix.
using NamedModules = std::vector<std::pair<std::string, torch::nn::Module*>>;

// Returns the part of the state that saves the optimizer. In the checkpoint, all of its names begin with
// `key`. Throws std::invalid_argument if the optimizer is of an unknown kind, or if one of its parameters is
// in none of the modules. The modules and the optimizer must live longer than the part.
std::unique_ptr<StatePart> make_optimizer_part(const std::string& key, const NamedModules& modules,
                                               torch::optim::Optimizer& optimizer);

}  // namespace muster
