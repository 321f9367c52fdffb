// A separable layer can compute its weight gradients later than the gradient of its input. This file also has
// the functions that the kernels (separable_layers.cc) share: they find where a parameter's gradient goes,
// and add the layer's node to the graph.
//
// On a thread that has a WeightGrads::Deferring, a kernel takes the place of an operator. It runs in the
// forward pass and makes a SeparableLayer. Later, backward() asks the layer for the gradient of its input,
// and WeightGrads::compute() asks the layer for the gradients of its weights. Any thread can ask the layer,
// but only one at a time.
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

// A thread that defers adds this dispatch key to its operators. torch itself has no kernels for the key. In
// torch's order, the key comes before all keys that compute. If an operator has no kernel for this key, torch
// goes on to the next key. A thread that does not defer does not have the key, so it pays nothing.
constexpr auto kDeferringKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr c10::DispatchKeySet kBelowDeferring(c10::DispatchKeySet::FULL_AFTER, kDeferringKey);

// Holds the tensors of a layer's forward pass from which both kinds of gradients are computed.
class SeparableLayer {
 public:
  SeparableLayer() = default;
  SeparableLayer(const SeparableLayer&) = delete;
  SeparableLayer& operator=(const SeparableLayer&) = delete;
  virtual ~SeparableLayer() = default;
  // `gradient` is the gradient of the layer's output. This function is called only if the layer's input needs
  // a gradient.
  virtual at::Tensor input_gradient(const at::Tensor& gradient) = 0;
  virtual void add_weight_gradients(at::Tensor&& gradient) = 0;
  // Call this if the program adds `leaf` to the layer's output. It makes `leaf` the layer's bias. Returns
  // false if the layer cannot take a bias.
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

// If the layers in this thread's forward passes defer their weight gradients, this points to the notes in
// which backward() stores the deferred work. Otherwise it is null.
extern thread_local const std::shared_ptr<WeightNotes>* deferring_to;

// A kernel calls defers() with its own keys. Returns true if the kernel must defer its weight gradients. If
// it returns false, the gradients are computed as usual. For example, it returns false in a call under
// autocast. Autocast's own kernel then calls the layer again, with copies of the right type, and that second
// call can defer.
bool defers(c10::DispatchKeySet keys);

// Says where a parameter's gradient goes. If the parameter needs no gradient, the leaf is undefined.
struct GradientSource {
  at::Tensor leaf;
  bool transposed = false;  // the parameter is leaf.t()
};
// Finds the leaf that gets the parameter's gradient. The parameter can be the leaf itself, autocast's copy of
// it, or its transpose. If the gradient cannot be deferred, this function returns nothing, and backward()
// must compute the gradient.
std::optional<GradientSource> source_of(const at::Tensor& parameter);
// Returns the leaf that source_of() finds. Returns nothing if source_of() returns nothing, or if the
// parameter is the leaf's transpose.
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
// Returns the layer that computed this output. If there is none, or if something has already been computed
// from the output, returns null.
SeparableLayer* layer_of_unused(const at::Tensor& output);

// Saves the tensor without its graph. A layer that waits for compute() would otherwise keep the graph alive.
// The tensor's version is saved, too. If the tensor is changed before unpack(), unpack() throws.
torch::autograd::SavedVariable saved(const at::Tensor& tensor);

// Adds to the leaf's gradient as autograd does.
void add_gradient(const at::Tensor& leaf, at::Tensor gradient);

// Runs the operator without autograd.
template <class Operator, class... Arguments>
auto forward_only(c10::DispatchKeySet keys, const Arguments&... arguments) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return Operator::redispatch(keys & c10::after_ADInplaceOrView_keyset, arguments...);
}

// Registers the kernels that can defer weight gradients. After this call, layers use these kernels in each
// thread in which a Deferring exists.
void intercept_separable_layers();

}  // namespace muster::detail
