// Loads only a model, from a checkpoint or a file of weights: for evaluation, export, or fine-tuning.
//
//   Net net;
//   muster::load_model(net, "checkpoints");
//   muster::load_model(resnet, "resnet50.safetensors", {.strict = false});
//
// load_model() works without init(), launcher and optimizer. It reads only the model's bytes and writes
// nothing, so a training can go on using the directory. Any thread can call it.
#pragma once

#include <c10/core/Device.h>
#include <cstdint>
#include <map>
#include <muster/comm/detail/module.h>
#include <optional>
#include <string>
#include <vector>

namespace muster {

struct LoadModelOptions {
  // `step`, `best` and `name` are only for checkpoints. If the path is a file of weights, setting them is an
  // error.
  std::optional<std::int64_t> step = std::nullopt;  // empty: the newest usable checkpoint
  bool best = false;  // instead of `step`: the best checkpoint by the training's metric
  // true: the checkpoint must have exactly the module's parameters and buffers. false: only the parameters
  // and buffers that are in both the checkpoint and the module are loaded.
  bool strict = true;
  // The name with which the training added the module to its TrainState, such as "average". Empty: the
  // training's model.
  std::string name{};
  // Maps prefixes of names in the module to prefixes in the checkpoint: {{"encoder.", "backbone."}}.
  std::map<std::string, std::string> rename{};
  std::optional<c10::Device> device = std::nullopt;  // moves the module to this device, unless empty
};

struct LoadedModel {
  std::int64_t step = 0;                // 0 for a file of weights
  std::vector<std::string> missing;     // in the module but not in the checkpoint: left unchanged
  std::vector<std::string> unexpected;  // in the checkpoint but not in the module
};

// `path` is the checkpoint directory of a training, or a safetensors file with tensors by name. Python's
// `safetensors.torch.save_file(model.state_dict(), path)` writes such a file. Shapes must be equal; types are
// converted.
// Changes nothing unless everything fits. A checkpoint's bytes are verified only while they are read into the
// module: after an error about damaged bytes, the module can contain wrong values.
// Throws std::invalid_argument, which names what does not fit, if module and file differ. Throws
// std::runtime_error in these cases:
// - There is no usable checkpoint, or none of `step`.
// - With `best`, no checkpoint has a metric.
// - The file cannot be read.
LoadedModel load_model(torch::nn::Module& module, const std::string& path,
                       const LoadModelOptions& options = {});

// `model` is a holder, a pointer to a module, or a DistributedDataParallel.
template <class Model>
LoadedModel load_model(Model& model, const std::string& path, const LoadModelOptions& options = {}) {
  return load_model(static_cast<torch::nn::Module&>(detail::module_of(model)), path, options);
}

}  // namespace muster
