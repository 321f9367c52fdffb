#include "runtime/pipeline/weight_grads.h"

#include <mutex>
#include <string_view>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <typeinfo>
#include <utility>

#include "runtime/pipeline/separable_layer.h"
#include "runtime/torch_versions.h"

namespace muster {
namespace detail {

thread_local const std::shared_ptr<WeightNotes>* deferring_to = nullptr;

namespace {

class LayerNode : public torch::autograd::Node {
 public:
  LayerNode(std::shared_ptr<SeparableLayer> layer, std::shared_ptr<WeightNotes> notes)
      : layer_(std::move(layer)), notes_(std::move(notes)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(layer_, torch::autograd::ERR_BACKWARD_TWICE);
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "deferred weight gradients have no graph: create_graph is not supported");
    torch::autograd::variable_list inputs(num_outputs());
    at::Tensor& gradient = gradients[0];
    if (!gradient.defined()) return inputs;
    if (!inputs.empty() && task_should_compute_output(0)) inputs[0] = layer_->input_gradient(gradient);
    notes_->add({layer_, std::move(gradient)});
    return inputs;
  }
  void release_variables() override {
    const std::lock_guard lock(mutex_);
    layer_.reset();
  }
  std::string name() const override { return "DeferredWeightGradient"; }
  SeparableLayer& layer() { return *layer_; }

 private:
  std::shared_ptr<SeparableLayer> layer_;
  std::shared_ptr<WeightNotes> notes_;
};

bool has_hooks(const at::Tensor& leaf) {
  using namespace torch::autograd;
  if (!impl::hooks(leaf).empty() || impl::post_acc_grad_hooks(leaf) != nullptr) return true;
  const auto accumulator = impl::try_get_grad_accumulator(leaf);
  return accumulator && (!accumulator->pre_hooks().empty() || !accumulator->post_hooks().empty() ||
                         !accumulator->tensor_pre_hooks().empty());
}

}  // namespace

void WeightNotes::add(Note&& note) {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(!abandoned_, "this forward pass deferred to a WeightGrads that no longer exists");
  notes_.push_back(std::move(note));
}
std::vector<WeightNotes::Note> WeightNotes::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notes_, {});
}
bool WeightNotes::empty() const {
  const std::lock_guard lock(mutex_);
  return notes_.empty();
}
void WeightNotes::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  notes_.clear();
}
void WeightNotes::meet(const at::Tensor& leaf) {
  if (!leaf.defined()) return;
  const std::lock_guard lock(mutex_);
  met_.insert(leaf.unsafeGetTensorImpl());
}
bool WeightNotes::has_met(const at::Tensor& parameter) const {
  const std::lock_guard lock(mutex_);
  return met_.contains(parameter.unsafeGetTensorImpl());
}

bool defers(c10::DispatchKeySet keys) {
  constexpr c10::DispatchKeySet kPlain =
      c10::DispatchKeySet({c10::DispatchKey::Dense, c10::DispatchKey::ADInplaceOrView,
                           c10::DispatchKey::AutogradOther /* of an undefined bias */,
                           c10::DispatchKey::AutogradFunctionality, kDeferringKey});
  return deferring_to != nullptr && at::GradMode::is_enabled() &&
         keys.has(c10::DispatchKey::AutogradFunctionality) &&
         (keys - kPlain).highestFunctionalityKey() == c10::DispatchKey::Undefined;
}

std::optional<GradientSource> source_of(const at::Tensor& parameter) {
  GradientSource source;
  if (!parameter.defined() || !parameter.requires_grad()) return source;
  source.leaf = parameter;
  for (const torch::autograd::Node* node = parameter.grad_fn().get(); node != nullptr;) {
    const std::string_view name(typeid(*node).name());
    if (const auto* end = dynamic_cast<const torch::autograd::AccumulateGrad*>(node)) {
      source.leaf = end->variable;
      break;
    }
    if (name.ends_with("10TBackward0E"))
      source.transposed = !source.transposed;
    else if (!name.ends_with("15ToCopyBackward0E"))
      return std::nullopt;
    node = node->next_edge(0).function.get();
  }
  if (has_hooks(source.leaf)) return std::nullopt;
  return source;
}
OptionalTensor leaf_of(const OptionalTensor& parameter) {
  if (!parameter) return at::Tensor();
  auto source = source_of(*parameter);
  if (!source || source->transposed) return std::nullopt;
  return std::move(source->leaf);
}

std::optional<Leaves> leaves_of(c10::DispatchKeySet keys, const OptionalTensor& weight,
                                const OptionalTensor& bias) {
  if (!defers(keys)) return std::nullopt;
  auto weight_leaf = leaf_of(weight);
  auto bias_leaf = leaf_of(bias);
  if (!weight_leaf || !bias_leaf || !(weight_leaf->defined() || bias_leaf->defined())) return std::nullopt;
  (*deferring_to)->meet(*weight_leaf);
  (*deferring_to)->meet(*bias_leaf);
  return Leaves{std::move(*weight_leaf), std::move(*bias_leaf)};
}

void set_layer(const at::Tensor& output, const at::Tensor& input, std::shared_ptr<SeparableLayer> layer) {
  const auto node = compat::make_node<LayerNode>(std::move(layer), *deferring_to);
  if (input.defined() && input.requires_grad())
    node->add_next_edge(torch::autograd::impl::gradient_edge(input));
  torch::autograd::set_history(output, node);
}

SeparableLayer* layer_of_unused(const at::Tensor& output) {
  const auto& node = output.grad_fn();
  auto* layer_node = dynamic_cast<LayerNode*>(node.get());
  // If something has been computed from the output, the node of that computation refers to `node`, too. Then
  // use_count() is at least 2.
  return layer_node != nullptr && node.use_count() == 1 ? &layer_node->layer() : nullptr;
}

torch::autograd::SavedVariable saved(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {at::Tensor(tensor.tensor_data()), /*is_output=*/false};
}

void add_gradient(const at::Tensor& leaf, at::Tensor gradient) {
  if (!leaf.defined() || !gradient.defined()) return;
  if (gradient.scalar_type() != leaf.scalar_type() || gradient.device() != leaf.device())
    gradient = gradient.to(leaf.options());  // autocast's copy had another type
  at::Tensor& sum = leaf.mutable_grad();
  torch::autograd::AccumulateGrad::accumulateGrad(leaf, sum, gradient, /*num_expected_refs=*/1,
                                                  [&sum](at::Tensor&& total) { sum = std::move(total); });
}

}  // namespace detail

WeightGrads::WeightGrads() : notes_(std::make_shared<detail::WeightNotes>()) {
  detail::intercept_separable_layers();
}
WeightGrads::~WeightGrads() {
  if (notes_) notes_->abandon();  // null if this object was moved from
}

WeightGrads::Deferring::Deferring(WeightGrads& to)
    : notes_(to.notes_),
      outer_(std::exchange(detail::deferring_to, &notes_)),
      intercepting_(detail::kDeferringKey) {}
WeightGrads::Deferring::~Deferring() {
  detail::deferring_to = outer_;
}

void WeightGrads::compute() {
  const at::AutoGradMode no_graph(false);
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  for (auto& each : notes_->take()) {
    auto note = std::move(each);  // frees each before it computes the next
    note.layer->add_weight_gradients(std::move(note.gradient));
  }
}

bool WeightGrads::empty() const {
  return notes_->empty();
}
bool WeightGrads::defers(const at::Tensor& parameter) const {
  return notes_->has_met(parameter);
}

}  // namespace muster
