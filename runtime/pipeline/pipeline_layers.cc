#include <algorithm>
#include <fmt/format.h>
#include <muster/pipeline/pipeline_layers.h>
#include <optional>
#include <string_view>
#include <tuple>

#include "common/pipeline/partition.h"
#include "runtime/pipeline/layer_random.h"

namespace muster {

namespace {

// A module that stands for the part before a dot in layers' names.
struct Folder : torch::nn::Module {};

std::uint64_t seed_of(std::uint64_t seed, std::string_view name) {
  for (const char byte : name) seed = mix_seeds(seed, static_cast<unsigned char>(byte));
  return seed;
}

template <std::size_t... I>
torch::nn::AnyValue call_any(torch::nn::AnyModule& module, const std::vector<at::Tensor>& inputs,
                             std::index_sequence<I...> /*inputs*/) {
  return module.any_forward(at::Tensor(inputs[I])...);
}

template <std::size_t Count>
torch::nn::AnyValue call_any(torch::nn::AnyModule& module, const std::vector<at::Tensor>& inputs) {
  if constexpr (Count > detail::kMostStageInputs) {
    throw std::invalid_argument(
        fmt::format("a layer gets {} tensors; at most {} are possible", inputs.size(), Count - 1));
  } else {
    if (inputs.size() == Count) return call_any(module, inputs, std::make_index_sequence<Count>());
    return call_any<Count + 1>(module, inputs);
  }
}

template <class... Kinds>
std::vector<at::Tensor> tensors_in(torch::nn::AnyValue& output, std::tuple<Kinds...> /*kinds*/) {
  std::optional<std::vector<at::Tensor>> tensors;
  const auto try_as = [&]<class Kind>(const Kind* /*kind*/) {
    if (const Kind* value = output.try_get<Kind>()) tensors = detail::tensors_of(*value);
  };
  (try_as(static_cast<const Kinds*>(nullptr)), ...);
  if (!tensors)
    throw std::invalid_argument("a layer's forward() must return tensors, and returns something else");
  return *tensors;
}

template <class Tensor>
using LayerOutputs =
    std::tuple<Tensor, std::vector<Tensor>, std::tuple<Tensor, Tensor>, std::tuple<Tensor, Tensor, Tensor>,
               std::tuple<Tensor, Tensor, Tensor, Tensor>>;

bool lies_in(std::string_view name, std::string_view folder) {
  return name.size() > folder.size() && name.starts_with(folder) && name[folder.size()] == '.';
}

// Returns true if the name has no empty part before, after or between dots.
bool is_a_name(std::string_view name) {
  return name.empty() || (name.front() != '.' && name.back() != '.' && !name.contains(".."));
}

[[noreturn]] void refuse_name(const std::string& name) {
  throw std::invalid_argument(
      fmt::format("PipelineLayers: two things are called '{}': "
                  "take a module that several layers use from SharedModules",
                  name));
}

}  // namespace

// Builds a stage's module from its layers.
class StageBuilder {
 public:
  StageBuilder(std::uint64_t seed, std::uint64_t first)
      : stage_(std::make_shared<StageModule>()), shared_(seed) {
    stage_->first_ = first;
  }

  void add(const std::string& name, const detail::BuildLayer& build) {
    const std::size_t known = shared_.modules_.size();
    detail::BuiltLayer layer = build(shared_);
    if (layer.module == nullptr)
      throw std::invalid_argument(fmt::format("PipelineLayers: the layer '{}' has no module", name));
    if (name.empty())
      place_content(layer.module);
    else
      place(name, layer.module);
    for (std::size_t i = known; i < shared_.modules_.size(); ++i)
      place(shared_.modules_[i].first, shared_.modules_[i].second);
    stage_->layers_.push_back(std::move(layer.forward));
  }

  std::shared_ptr<StageModule> take() {
    for (const auto& [name, module] : shared_.modules_) stage_->shared_.push_back(name);
    return std::move(stage_);
  }

 private:
  // Registers the module in the stage under its name. Each part of the name that ends at a dot becomes a
  // Folder. If such a part names a module that is not a Folder, throws an error.
  void place(const std::string& name, const std::shared_ptr<torch::nn::Module>& module) {
    torch::nn::Module* folder = stage_.get();
    std::size_t begin = 0;
    for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', begin)) {
      folder =
          child_of(*folder, name.substr(begin, dot - begin), name, [] { return std::make_shared<Folder>(); });
      begin = dot + 1;
    }
    if (child_of(*folder, name.substr(begin), name, [&] { return module; }) != module.get())
      refuse_name(name);
  }

  template <class Make>
  torch::nn::Module* child_of(torch::nn::Module& folder, const std::string& part, const std::string& name,
                              const Make& make) {
    const auto children = folder.named_children();
    if (const auto* child = children.find(part)) return child->get();
    if (&folder != stage_.get() && dynamic_cast<Folder*>(&folder) == nullptr) refuse_name(name);
    return folder.register_module(part, make()).get();
  }

  using NamedTensors = torch::OrderedDict<std::string, at::Tensor>;
  template <class Register>
  static void place_tensors(const NamedTensors& known, const NamedTensors& more, const Register& add) {
    for (const auto& each : more) {
      const at::Tensor* same = known.find(each.key());
      if (same == nullptr)
        add(each.key(), each.value());
      else if (!same->is_same(each.value()))
        refuse_name(each.key());
    }
  }

  void place_content(const std::shared_ptr<torch::nn::Module>& module) {
    for (const auto& child : module->named_children()) place(child.key(), child.value());
    place_tensors(stage_->named_parameters(/*recurse=*/false), module->named_parameters(/*recurse=*/false),
                  [&](const std::string& name, const at::Tensor& tensor) {
                    stage_->register_parameter(name, tensor, tensor.requires_grad());
                  });
    place_tensors(
        stage_->named_buffers(/*recurse=*/false), module->named_buffers(/*recurse=*/false),
        [&](const std::string& name, const at::Tensor& tensor) { stage_->register_buffer(name, tensor); });
    stage_->unnamed_.push_back(module);
  }

  std::shared_ptr<StageModule> stage_;
  SharedModules shared_;
};

std::vector<at::Tensor> StageModule::forward(const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> tensors = inputs;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    begin_layer(first_ + i);
    tensors = layers_[i](tensors);
  }
  return tensors;
}

bool StageModule::shares(const std::string& parameter) const {
  return std::ranges::any_of(shared_, [&](const std::string& module) { return lies_in(parameter, module); });
}

void StageModule::train(bool on) {
  torch::nn::Module::train(on);
  for (const auto& module : unnamed_) module->train(on);
}

std::shared_ptr<torch::nn::Module> SharedModules::find(
    const std::string& name, const std::function<std::shared_ptr<torch::nn::Module>()>& build) {
  for (const auto& [known, module] : modules_)
    if (known == name) return module;
  // The shared module has its own seed. So the layer draws the same numbers, whether or not it is the first
  // to ask for the module.
  const LayerRandom random(seed_of(seed_, name), c10::kCPU);
  begin_layer(0);
  return modules_.emplace_back(name, build()).second;
}

detail::StageForward detail::stage_forward(torch::nn::AnyModule module) {
  return [module = std::move(module)](const std::vector<at::Tensor>& inputs) mutable {
    torch::nn::AnyValue output = call_any<1>(module, inputs);
    return tensors_in(output, LayerOutputs<at::Tensor>());
  };
}

void PipelineLayers::add(const torch::nn::Sequential& layers, const std::string& prefix) {
  const auto names = layers->named_children();
  for (std::size_t i = 0; i < layers->size(); ++i)
    add(prefix.empty() ? names[i].key() : prefix + "." + names[i].key(),
        *(layers->begin() + static_cast<std::ptrdiff_t>(i)));
}

void PipelineLayers::add_module(const std::string& name, const detail::BuiltLayer& layer) {
  add_layer({name, [layer](SharedModules& /*none*/) { return layer; }, layer.module.get(), false});
}

void PipelineLayers::add_builder(const std::string& name, bool may_share, detail::BuildLayer build) {
  add_layer({name, std::move(build), nullptr, may_share});
}

void PipelineLayers::add_layer(Layer layer) {
  if (!is_a_name(layer.name))
    throw std::invalid_argument(fmt::format(
        "PipelineLayers: '{}' cannot be a layer's name: a part before or after a dot is empty", layer.name));
  for (const Layer& other : layers_) {
    if (layer.name.empty() || other.name.empty()) continue;
    if (lies_in(layer.name, other.name) || lies_in(other.name, layer.name))
      throw std::invalid_argument(
          fmt::format("PipelineLayers: '{}' and '{}': one is inside the other; list whole layers only",
                      other.name, layer.name));
    const bool same = layer.module != nullptr && layer.module == other.module;
    if (layer.name == other.name && !same && !(layer.may_share && other.may_share)) refuse_name(layer.name);
  }
  layers_.push_back(std::move(layer));
}

std::shared_ptr<StageModule> PipelineLayers::build(int first, int last) const {
  if (first < 0 || first >= last || last > size())
    throw std::invalid_argument(
        fmt::format("PipelineLayers: no layers from {} to {} among {}: "
                    "layers count from 0, and a stage has at least one",
                    first, last, size()));
  StageBuilder builder(seed_, static_cast<std::uint64_t>(first));
  const LayerRandom random(seed_, c10::kCPU);
  for (int i = first; i < last; ++i) {
    const Layer& layer = layers_[static_cast<std::size_t>(i)];
    begin_layer(static_cast<std::uint64_t>(i));
    builder.add(layer.name, layer.build);
  }
  return builder.take();
}

PipelineStage PipelineLayers::stage(const std::vector<int>& first_layers, int index,
                                    const Group& group) const {
  const int stages = static_cast<int>(first_layers.size());
  if (const Status good = check_partition(first_layers, size(), stages); !good)
    throw std::invalid_argument("PipelineLayers: " + good.error().message());
  if (index < 0 || index >= stages)
    throw std::invalid_argument(
        fmt::format("PipelineLayers: no stage {} of {}: stages count from 0", index, stages));
  const auto at = static_cast<std::size_t>(index);
  const auto module = build(first_layers[at], index + 1 < stages ? first_layers[at + 1] : size());
  module->to(group.device());
  return {module, index, stages, group};
}

}  // namespace muster
