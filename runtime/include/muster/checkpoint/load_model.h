// Loads a model, and no more, from a checkpoint or a file of weights: for evaluation, export, or fine-tuning.
//
//   Net net;
//   muster::load_model(net, "checkpoints");
//   muster::load_model(resnet, "resnet50.safetensors", {.strict = false});
//
// Needs no init(), no launcher, and no optimizer; reads only, so a training that writes there goes on, and
// only the bytes of the model. Safe from any thread.
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
  // These two and `name` are of checkpoints.
  std::optional<std::int64_t> step = std::nullopt;  // none: the newest that can be used
  bool best = false;  // in place of that: the best one, by the metric that the training ranks them by
  // True: the checkpoint must have all parameters and buffers of the module, and no others. False: those that
  // both have are loaded.
  bool strict = true;
  // Which module: the model, or one that was added to the state by this name, such as an average of it.
  std::string name{};
  // What names begin with in the module, and in the checkpoint: {{"encoder.", "backbone."}}.
  std::map<std::string, std::string> rename{};
  std::optional<c10::Device> device = std::nullopt;  // the module is moved there; none: it stays
};

struct LoadedModel {
  std::int64_t step = 0;                // 0: of a file of weights
  std::vector<std::string> missing;     // of the module, not in the checkpoint: left as they were
  std::vector<std::string> unexpected;  // in the checkpoint, not in the module
};

// `path` is the checkpoint directory of a training, or a safetensors file of tensors by name, such as
// Python's `safetensors.torch.save_file(model.state_dict(), path)` makes. Shapes must be equal; types are
// converted. Nothing is changed unless all fits; a checkpoint's bytes are verified as they are read into the
// module, so that it is in parts another one's if then an error follows. std::runtime_error if there is no
// checkpoint that can be used, or not of this step, or none that has a metric for the best, or if the file
// cannot be read; std::invalid_argument names what does not fit.
LoadedModel load_model(torch::nn::Module& module, const std::string& path,
                       const LoadModelOptions& options = {});

// A holder, a pointer to a module, or a DistributedDataParallel.
template <class Model>
LoadedModel load_model(Model& model, const std::string& path, const LoadModelOptions& options = {}) {
  return load_model(static_cast<torch::nn::Module&>(detail::module_of(model)), path, options);
}

}  // namespace muster
