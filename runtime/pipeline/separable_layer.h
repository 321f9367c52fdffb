// A separable layer can compute its weight gradients later than the gradient of its input. This file also has
// the functions that the kernels (separable_layers.cc) share: they find where a parameter's gradient goes,
// and add the layer's node to the graph.
//
// A kernel replaces an operator on threads that defer. It runs in the forward pass and makes a
// SeparableLayer. Later, backward() asks the layer for the gradient of its input, and WeightGrads::compute()
// asks it for the gradients of its weights. Any thread can do that, but not two at once.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <memory>
#include <mutex>
#include <optional>
#include <torch/csrc/autograd/saved_variable.h>
#include <unordered_set>
#include <vector>

namespace muster::detail {

using OptionalTensor = std::optional<at::Tensor>;

// A thread that defers adds this dispatch key to its operators. torch itself does not use the key, and it
// comes before all keys that compute. Operators without a kernel for it fall through to the next key. So a
// thread that does not defer pays nothing.
constexpr auto kDeferringKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr c10::DispatchKeySet kBelowDeferring(c10::DispatchKeySet::FULL_AFTER, kDeferringKey);

// Holds the tensors of a layer's forward pass from which both kinds of gradients are computed.
class SeparableLayer {
 public:
  SeparableLayer() = default;
  SeparableLayer(const SeparableLayer&) = delete;
  SeparableLayer& operator=(const SeparableLayer&) = delete;
  virtual ~SeparableLayer() = default;
  // `gradient` is that of the output. Called only if the layer's input needs a gradient.
  virtual at::Tensor input_gradient(const at::Tensor& gradient) = 0;
  virtual void add_weight_gradients(at::Tensor&& gradient) = 0;
  // The program adds `leaf` to the layer's output. Makes `leaf` the layer's bias. Returns false if the layer
  // cannot take a bias.
  virtual bool take_bias(const at::Tensor& /*leaf*/) { return false; }
};

// Holds what backward() has deferred: each note is a layer and the gradient of its output. A WeightGrads
// shares the notes with the nodes of all graphs that defer to it. Any thread can use them.
class WeightNotes {
 public:
  struct Note {
    std::shared_ptr<SeparableLayer> layer;
    at::Tensor gradient;
  };
  void add(Note&& note);
  std::vector<Note> take();
  bool empty() const;
  void abandon();  // add() throws from now on
  void meet(const at::Tensor& leaf);
  bool has_met(const at::Tensor& parameter) const;

 private:
  mutable std::mutex mutex_;
  std::vector<Note> notes_;
  std::unordered_set<const c10::TensorImpl*> met_;
  bool abandoned_ = false;
};

// This thread's forward passes defer to these notes. Null if they do not defer.
extern thread_local const std::shared_ptr<WeightNotes>* deferring_to;

// Returns true if a kernel that was called with these keys must defer. Otherwise the layer runs as always.
// For example, a call under autocast does not defer: autocast's kernel calls the layer again, with copies of
// the right type, and that call can defer.
bool defers(c10::DispatchKeySet keys);

// Where a parameter's gradient goes. The leaf is undefined if the parameter needs no gradient.
struct GradientSource {
  at::Tensor leaf;
  bool transposed = false;  // the parameter is leaf.t()
};
// Finds the leaf behind autocast's copy and a transpose. Returns nothing if the gradient cannot be deferred,
// so that backward() must compute it.
std::optional<GradientSource> source_of(const at::Tensor& parameter);
// Returns the leaf of source_of(). Returns nothing if source_of() does, or if the parameter is transposed.
OptionalTensor leaf_of(const OptionalTensor& parameter);

struct Leaves {
  at::Tensor weight, bias;
};
// Finds the leaves that receive the gradients of weight and bias, and calls WeightNotes::meet() for each.
// Returns nothing in these cases:
// - The layer does not defer.
// - backward() must compute one of the gradients.
// - Neither weight nor bias needs a gradient.
std::optional<Leaves> leaves_of(c10::DispatchKeySet keys, const OptionalTensor& weight,
                                const OptionalTensor& bias);

// Adds the layer's node to the graph, between `output` and `input`. So backward() calls the layer.
void set_layer(const at::Tensor& output, const at::Tensor& input, std::shared_ptr<SeparableLayer> layer);
// Returns the layer of this output. Returns null if there is none, or if something has already been computed
// from the output.
SeparableLayer* layer_of_unused(const at::Tensor& output);

// Saves a detached tensor, because a waiting layer must not keep a graph alive. Saves its version, too:
// unpack() throws if the tensor was changed in between.
torch::autograd::SavedVariable saved(const at::Tensor& tensor);

// Adds to the leaf's gradient as autograd does.
void add_gradient(const at::Tensor& leaf, at::Tensor gradient);

// Runs the operator without autograd.
template <class Operator, class... Arguments>
auto forward_only(c10::DispatchKeySet keys, const Arguments&... arguments) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return Operator::redispatch(keys & c10::after_ADInplaceOrView_keyset, arguments...);
}

// Registers the kernels. From now on, layers call them on threads that defer.
void intercept_separable_layers();

}  // namespace muster::detail
