#include "runtime/model/layer_shapes.h"

#include <memory>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>

namespace muster {
namespace {

thread_local LayerWatch* watching = nullptr;

struct InLayer : at::ObserverContext {
  explicit InLayer(const torch::nn::Module* which) : layer(which) {}
  const torch::nn::Module* layer;
};

// Returns true for a layer of torch that has no children. Any other module can run several operators, and
// then it is not known which operator is the last.
bool is_of_torch(const torch::nn::Module& module) {
  return module.name().starts_with("torch::nn::") && module.children().empty();
}

template <class Use>
void for_each_tensor(const c10::IValue& value, const Use& use) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) use(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& each : value.toTensorVector()) use(each);
  }
}

std::optional<OutputKind> run_on_zeros(torch::nn::AnyModule& layer, const OutputKind& input) {
  try {
    return kind_of(layer.forward<at::Tensor>(at::zeros(input.shape, input.options)));
  } catch (const std::exception&) {  // its input or output is not one tensor of this kind
    return std::nullopt;
  }
}

}  // namespace

OutputKind kind_of(const at::Tensor& tensor) {
  return {tensor.sizes().vec(), tensor.options()};
}

LayerWatch::LayerWatch(const torch::nn::Module& module) {
  for (const auto& each : module.modules(/*include_self=*/false)) {
    if (!is_of_torch(*each)) continue;
    for (const at::Tensor& parameter : each->parameters())
      layer_of_.emplace(parameter.unsafeGetTensorImpl(), each.get());
  }
  if (is_of_torch(module))
    for (const at::Tensor& parameter : module.parameters())
      layer_of_.emplace(parameter.unsafeGetTensorImpl(), &module);
  watching = this;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(operator_begins, operator_ends)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

LayerWatch::~LayerWatch() {
  at::removeCallback(handle_);
  watching = nullptr;
}

const torch::nn::Module* LayerWatch::layer_of(const at::RecordFunction& function) const {
  const torch::nn::Module* layer = nullptr;
  for (const c10::IValue& input : function.inputs())
    for_each_tensor(input, [&](const at::Tensor& tensor) {
      const auto found = layer_of_.find(tensor.unsafeGetTensorImpl());
      if (layer == nullptr && found != layer_of_.end() && !outputs_.contains(found->second))
        layer = found->second;
    });
  return layer;
}

std::unique_ptr<at::ObserverContext> LayerWatch::operator_begins(const at::RecordFunction& function) {
  if (watching == nullptr || watching->inside_) return nullptr;
  const torch::nn::Module* layer = watching->layer_of(function);
  if (layer == nullptr) return nullptr;
  watching->inside_ = true;
  return std::make_unique<InLayer>(layer);
}

void LayerWatch::operator_ends(const at::RecordFunction& function, at::ObserverContext* context) {
  if (watching == nullptr || context == nullptr) return;
  watching->inside_ = false;
  const torch::nn::Module* layer = static_cast<InLayer*>(context)->layer;
  for (const c10::IValue& output : function.outputs()) {
    if (!output.isTensor() || !output.toTensor().defined()) continue;
    // The output may be a view of a parameter, for example its transpose. The operator that made such a view
    // does not compute the layer.
    for (const at::Tensor& parameter : layer->parameters(/*recurse=*/false))
      if (output.toTensor().is_alias_of(parameter)) return;
    watching->outputs_.emplace(layer, kind_of(output.toTensor()));
    return;
  }
}

void walk_through_sequentials(torch::nn::Module& module, const std::optional<OutputKind>& input,
                              OutputKinds& outputs) {
  const torch::NoGradGuard no_grad;
  auto* sequential = module.as<torch::nn::SequentialImpl>();
  if (sequential == nullptr) {
    for (const auto& child : module.children()) walk_through_sequentials(*child, std::nullopt, outputs);
    return;
  }
  std::optional<OutputKind> now = input;
  for (torch::nn::AnyModule& layer : *sequential) {
    torch::nn::Module& inner = *layer.ptr();
    const std::optional<OutputKind> before = now;
    if (const auto known = outputs.find(&inner); known != outputs.end())
      now = known->second;
    else if (now)
      now = run_on_zeros(layer, *now);
    if (now) outputs.emplace(&inner, *now);
    walk_through_sequentials(inner, before, outputs);
  }
  if (now) outputs.emplace(&module, *now);
}

}  // namespace muster
