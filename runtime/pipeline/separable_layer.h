// A layer that can compute its weight gradients later than the gradient of its input. Also the parts that the
// kernels (separable_layers.cc) share: they find where a parameter's gradient goes, and add the layer's node
// to the graph.
//
// A kernel runs in the forward pass, on the thread that defers, and makes a SeparableLayer. Then backward()
// asks the layer for the gradient of its input, and WeightGrads::compute() for those of its weights; both on
// any thread, one after the other.
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

// Torch itself gives this key to no tensor and no mode. It comes before all keys that compute, and operators
// without a kernel for it fall through. So a thread that does not defer pays nothing.
constexpr auto kDeferringKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr c10::DispatchKeySet kBelowDeferring(c10::DispatchKeySet::FULL_AFTER, kDeferringKey);

// The tensors of one forward pass from which the two gradients are computed.
class SeparableLayer {
 public:
  SeparableLayer() = default;
  SeparableLayer(const SeparableLayer&) = delete;
  SeparableLayer& operator=(const SeparableLayer&) = delete;
  virtual ~SeparableLayer() = default;
  // `gradient`: the output's. Called only if the layer's input needs a gradient.
  virtual at::Tensor input_gradient(const at::Tensor& gradient) = 0;
  virtual void add_weight_gradients(at::Tensor&& gradient) = 0;
  // Makes `leaf`, which the program adds to the output afterwards, the layer's bias. Returns false if a bias
  // is impossible.
  virtual bool take_bias(const at::Tensor& /*leaf*/) { return false; }
};

// The notes of backward(), for a WeightGrads and the nodes of all graphs that defer to it. Any thread may use
// the notes.
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

// This thread's forward passes defer to these notes; null if they do not defer.
extern thread_local const std::shared_ptr<WeightNotes>* deferring_to;

// Returns whether a kernel that was called with these keys defers. If not, the layer must run as always. One
// such case is autocast, whose kernel then calls the layer again with copies of the right type.
bool defers(c10::DispatchKeySet keys);

// Where a parameter's gradient goes. The leaf is undefined if the parameter needs no gradient.
struct GradientSource {
  at::Tensor leaf;
  bool transposed = false;  // the parameter is leaf.t()
};
// Finds the leaf behind autocast's copy and a transpose. None if backward() must compute the gradient.
std::optional<GradientSource> source_of(const at::Tensor& parameter);
// Like source_of(), but also none for a transposed parameter.
OptionalTensor leaf_of(const OptionalTensor& parameter);

struct Leaves {
  at::Tensor weight, bias;
};
// Finds the leaves that receive the gradients of weight and bias, and calls WeightNotes::meet() for each.
// Returns nullopt if the layer does not defer, if backward() must compute one of the gradients, or if neither
// weight nor bias needs one.
std::optional<Leaves> leaves_of(c10::DispatchKeySet keys, const OptionalTensor& weight,
                                const OptionalTensor& bias);

// Makes `output` the layer's output in the graph: backward() visits the layer and goes on to `input`.
void set_layer(const at::Tensor& output, const at::Tensor& input, std::shared_ptr<SeparableLayer> layer);
// Returns the layer of this output, if nothing was computed from the output so far; else null.
SeparableLayer* layer_of_unused(const at::Tensor& output);

// Saves the tensor for later. It is detached, because a waiting layer must not keep a graph alive. Its
// version is saved too: unpacking notices a change that was made in between.
torch::autograd::SavedVariable saved(const at::Tensor& tensor);

// Adds to the leaf's gradient as autograd does.
void add_gradient(const at::Tensor& leaf, at::Tensor gradient);

// Calls the operator itself, without autograd.
template <class Operator, class... Arguments>
auto forward_only(c10::DispatchKeySet keys, const Arguments&... arguments) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return Operator::redispatch(keys & c10::after_ADInplaceOrView_keyset, arguments...);
}

// Registers the kernels: from now on layers call them on threads that defer.
void intercept_separable_layers();

}  // namespace muster::detail
