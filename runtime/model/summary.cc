#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <muster/model/summary.h>
#include <torch/torch.h>
#include <unordered_set>

#include "runtime/model/allocated_bytes.h"
#include "runtime/model/layer_shapes.h"

namespace muster {
namespace {

// Sets a module to eval mode. The destructor gives this module and all modules in it the modes that they had
// before. It also restores the random generator of the CPU.
class Untouched {
 public:
  explicit Untouched(torch::nn::Module& module) : generator_(at::detail::getDefaultCPUGenerator()) {
    note(module);
    state_ = generator_.get_state();
    module.eval();
  }
  ~Untouched() {
    for (const auto& [module, training] : modes_) module->train(training);  // a module before its children
    generator_.set_state(state_);
  }
  Untouched(const Untouched&) = delete;
  Untouched& operator=(const Untouched&) = delete;

 private:
  void note(torch::nn::Module& module) {
    modes_.emplace_back(&module, module.is_training());
    for (const auto& child : module.children()) note(*child);
  }

  at::Generator generator_;
  at::Tensor state_;
  std::vector<std::pair<torch::nn::Module*, bool>> modes_;
};

// Returns the type of a module without its namespace and without "Impl". For a "torch::nn::Conv2dImpl", it
// returns "Conv2d".
std::string type_of(const torch::nn::Module& module) {
  std::string name = module.name();
  const std::size_t arguments = std::min(name.find('<'), name.size());
  const std::size_t scope = name.rfind("::", arguments);
  if (scope != std::string::npos) name.erase(0, scope + 2);
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

struct Lister {
  ModelSummary& summary;
  const OutputKinds& outputs;
  std::unordered_set<const c10::TensorImpl*> seen{};

  void list(const torch::nn::Module& module, const std::string& name, int depth) {
    LayerSummary layer{.name = name, .type = type_of(module), .depth = depth};
    if (const auto known = outputs.find(&module); known != outputs.end())
      layer.output_shape = known->second.shape;
    for (const at::Tensor& parameter : module.parameters(/*recurse=*/false)) {
      if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
      layer.parameters += parameter.numel();
      summary.parameter_bytes += static_cast<std::int64_t>(parameter.nbytes());
      if (!parameter.requires_grad()) continue;
      layer.trainable += parameter.numel();
      summary.gradient_bytes += static_cast<std::int64_t>(parameter.nbytes());
    }
    for (const at::Tensor& buffer : module.buffers(/*recurse=*/false))
      if (seen.insert(buffer.unsafeGetTensorImpl()).second)
        summary.buffer_bytes += static_cast<std::int64_t>(buffer.nbytes());
    summary.parameters += layer.parameters;
    summary.trainable += layer.trainable;
    summary.layers.push_back(std::move(layer));
    for (const auto& child : module.named_children())
      list(*child.value(), name.empty() ? child.key() : name + "." + child.key(), depth + 1);
  }
};

OutputKinds run(torch::nn::Module& module, const std::vector<at::Tensor>& inputs,
                const detail::Forward& forward, ModelSummary& summary) {
  const Untouched untouched(module);
  const torch::AutoGradMode with_graph(true);
  OutputKinds outputs;
  {
    const auto bytes = std::make_shared<AllocatedBytes>();
    const LayerWatch watch(module);
    const c10::DebugInfoGuard counting(c10::DebugInfoKind::PROFILER_STATE, bytes);
    const std::vector<at::Tensor> results = forward();
    summary.activation_bytes = bytes->now();
    summary.peak_bytes = bytes->peak();
    outputs = watch.outputs();
    if (!results.empty() && results.front().defined())
      outputs.insert_or_assign(&module, kind_of(results.front()));
  }
  const bool one_input = inputs.size() == 1;
  walk_through_sequentials(module, one_input ? std::optional(kind_of(inputs.front())) : std::nullopt,
                           outputs);
  return outputs;
}

}  // namespace

at::Tensor detail::input_for(const torch::nn::Module& module, at::IntArrayRef size) {
  const auto parameters = module.parameters();
  return parameters.empty() ? at::zeros(size) : at::zeros(size, parameters.front().options());
}

ModelSummary detail::summarize(torch::nn::Module& module, const std::vector<at::Tensor>& inputs,
                               const Forward& forward) {
  ModelSummary summary;
  OutputKinds outputs;
  if (forward) outputs = run(module, inputs, forward, summary);
  Lister{summary, outputs}.list(module, "", 0);
  return summary;
}

}  // namespace muster
