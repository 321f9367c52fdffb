// A model as a list of layers; each rank makes only the stages that it runs.
//
//   muster::PipelineLayers layers(seed);
//   layers.add("embedding", [] { return torch::nn::Embedding(50000, 1024); });  // called where it is needed
//   for (int i = 0; i < 24; ++i) layers.add(fmt::format("blocks.{}", i), [] { return Block(1024); });
//   layers.add("head", [] { return Head(1024); });
//   muster::PipelineStage stage = layers.stage({0, 13}, job.rank(), job);  // the first layers of two stages
//
// Parameters have the same names and initial values, wherever the list is cut into stages. A layer's output
// (a tensor, a tuple or a vector of tensors) is the next layer's input. Only one thread may use a
// PipelineLayers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <muster/comm/detail/module.h>
#include <muster/comm/group.h>
#include <muster/model/named_layer.h>
#include <muster/pipeline/detail/stage_forward.h>
#include <muster/pipeline/pipeline_stage.h>
#include <stdexcept>
#include <string>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster {

// A module of some consecutive layers. Its parameters have the names that they have in the whole model.
class StageModule : public torch::nn::Module {
 public:
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs);
  void train(bool on = true) override;
  // Returns true if the parameter is in a shared module. Then other stages can have it too.
  bool shares(const std::string& parameter) const;

 private:
  friend class StageBuilder;
  std::uint64_t first_ = 0;  // its first layer's place in the whole model
  std::vector<detail::StageForward> layers_;
  std::vector<std::shared_ptr<torch::nn::Module>> unnamed_;  // layers without a name
  std::vector<std::string> shared_;                          // names of modules
};

// Modules that several layers use, for weights that are tied. Layers in one stage share one module. Each
// stage has its own copy of the module, with the same name and initial values, and the schedule sums the
// copies' gradients.
class SharedModules {
 public:
  explicit SharedModules(std::uint64_t seed) : seed_(seed) {}

  // Returns the module (a holder, as TORCH_MODULE makes it, or a shared_ptr) with this name in the whole
  // model. The first layer that asks for it builds and initializes it. Throws std::invalid_argument if the
  // module has another type.
  template <class Module, class Build>
  Module get(const std::string& name, const Build& build) {
    using Pointer = decltype(detail::module_pointer(std::declval<Module>()));
    const auto found = find(name, [&] { return detail::module_pointer(Module(build())); });
    auto module = std::dynamic_pointer_cast<typename Pointer::element_type>(found);
    if (module == nullptr)
      throw std::invalid_argument("the shared module '" + name + "' has another type in another layer");
    return Module(std::move(module));
  }

 private:
  friend class StageBuilder;
  std::shared_ptr<torch::nn::Module> find(const std::string& name,
                                          const std::function<std::shared_ptr<torch::nn::Module>()>& build);

  std::uint64_t seed_;
  std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>> modules_;
};

namespace detail {

struct BuiltLayer {
  std::shared_ptr<torch::nn::Module> module;
  StageForward forward;
};
using BuildLayer = std::function<BuiltLayer(SharedModules&)>;

StageForward stage_forward(torch::nn::AnyModule module);

template <class Module>
BuiltLayer built_layer(Module module) {
  if constexpr (std::is_same_v<Module, torch::nn::AnyModule>) {
    return {module.ptr(), stage_forward(std::move(module))};
  } else {
    auto pointer = module_pointer(std::move(module));
    return {pointer, stage_forward(pointer)};
  }
}

}  // namespace detail

class PipelineLayers {
 public:
  // Initializes each layer with random numbers that depend on this seed and the layer's place in the list,
  // but not on the rank.
  explicit PipelineLayers(std::uint64_t seed = 0) : seed_(seed) {}
  // Adds these layers, such as those of models::resnet_layers().
  explicit PipelineLayers(const std::vector<NamedLayer>& layers, std::uint64_t seed = 0) : seed_(seed) {
    for (const NamedLayer& layer : layers) add(layer.name, layer.build);
  }

  // Adds a layer: a module, or a function that makes one. The function can take a muster::SharedModules&. The
  // model's parameters are named `name`, a dot, and the parameter's name in the module: "layer1.0.weight". A
  // dot in `name` makes nested modules. If `name` is empty, the parameters belong to the model itself. Throws
  // std::invalid_argument if a layer's name begins with the name of another layer and a dot ("a.b" and "a").
  // Two layers can have the same name only if they are the same module, or if they are made by functions that
  // take a SharedModules&.
  template <class Layer>
  void add(const std::string& name, Layer layer) {
    if constexpr (detail::IsModel<Layer> || std::is_same_v<Layer, torch::nn::AnyModule>)
      add_module(name, detail::built_layer(std::move(layer)));
    else if constexpr (std::is_invocable_v<Layer&, SharedModules&>)
      add_builder(name, /*may_share=*/true, [layer = std::move(layer)](SharedModules& shared) mutable {
        return detail::built_layer(layer(shared));
      });
    else
      add_builder(name, /*may_share=*/false, [layer = std::move(layer)](SharedModules& /*none*/) mutable {
        return detail::built_layer(layer());
      });
  }
  // Adds all layers of a Sequential. Their names are those in the Sequential ("0", "1", ...), after the
  // prefix and a dot if there is a prefix.
  void add(const torch::nn::Sequential& layers, const std::string& prefix = "");

  int size() const { return static_cast<int>(layers_.size()); }
  const std::string& name(int layer) const { return layers_.at(static_cast<std::size_t>(layer)).name; }

  // Builds the layers from `first` to `last - 1`; 0 and size() give the undivided model. Layers that were
  // added as functions become new modules. Throws std::invalid_argument if the range is empty, or if two
  // modules have the same name.
  std::shared_ptr<StageModule> build(int first, int last) const;
  // Returns stage number `index`, on the group's device; stage i begins with layer first_layers[i]. Throws
  // std::invalid_argument if first_layers does not split the layers.
  PipelineStage stage(const std::vector<int>& first_layers, int index, const Group& group) const;

 private:
  struct Layer {
    std::string name;
    detail::BuildLayer build;
    const torch::nn::Module* module;  // null: made by a function
    bool may_share;
  };
  void add_module(const std::string& name, const detail::BuiltLayer& layer);
  void add_builder(const std::string& name, bool may_share, detail::BuildLayer build);
  void add_layer(Layer layer);

  std::uint64_t seed_;
  std::vector<Layer> layers_;
};

}  // namespace muster
