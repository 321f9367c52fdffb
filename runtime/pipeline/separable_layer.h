// A layer whose weight gradients can be computed later than the gradient of its input, and what its kernels
// (separable_layers.cc) share: where a parameter's gradient goes, and the node that backward() comes by.
//
// A kernel runs in a forward, on the thread that defers; the layer that it makes is asked for the two
// gradients by backward() and by WeightGrads::compute(), on any thread, one after the other.
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

// No tensor and no mode of torch's own has this key, it stands above all that computes, and what has no
// kernel for it falls through: so a thread that does not defer pays nothing.
constexpr auto kDeferringKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr c10::DispatchKeySet kBelowDeferring(c10::DispatchKeySet::FULL_AFTER, kDeferringKey);

// What the two gradients of one forward are computed from.
class SeparableLayer {
 public:
  SeparableLayer() = default;
  SeparableLayer(const SeparableLayer&) = delete;
  SeparableLayer& operator=(const SeparableLayer&) = delete;
  virtual ~SeparableLayer() = default;
  // `gradient`: of the output. Not called if the layer's input wants none.
  virtual at::Tensor input_gradient(const at::Tensor& gradient) = 0;
  virtual void add_weight_gradients(at::Tensor&& gradient) = 0;
  // Whether it can be the layer's bias, added to its output afterwards.
  virtual bool take_bias(const at::Tensor& /*leaf*/) { return false; }
};

// What backward() has noted, for WeightGrads and the nodes of all graphs that defer to it. From any thread.
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

// Where this thread defers to; null if nowhere.
extern thread_local const std::shared_ptr<WeightNotes>* deferring_to;

// Whether a kernel that was called with these keys defers. Else the layer is to run as always: under
// autocast, for instance, whose kernel calls the layer again with copies of the right type.
bool defers(c10::DispatchKeySet keys);

// Where a parameter's gradient goes; an undefined leaf if none is wanted.
struct GradientSource {
  at::Tensor leaf;
  bool transposed = false;  // the parameter is leaf.t()
};
// Through what autocast and linear() do with a parameter. None if backward() is to compute the gradient.
std::optional<GradientSource> source_of(const at::Tensor& parameter);
// None if it is transposed, too.
OptionalTensor leaf_of(const OptionalTensor& parameter);

struct Leaves {
  at::Tensor weight, bias;
};
// None if the layer does not defer, one of the two is to have its gradient from backward(), or neither wants
// one. WeightNotes has met them.
std::optional<Leaves> leaves_of(c10::DispatchKeySet keys, const OptionalTensor& weight,
                                const OptionalTensor& bias);

// Makes `output` the layer's in the graph: backward() comes by, and goes on to `input`.
void set_layer(const at::Tensor& output, const at::Tensor& input, std::shared_ptr<SeparableLayer> layer);
// The layer whose output it is, if nothing else was computed of that so far; else null.
SeparableLayer* layer_of_unused(const at::Tensor& output);

// Detached, so that what waits keeps no graph alive; with its version, so that a change is noticed.
torch::autograd::SavedVariable saved(const at::Tensor& tensor);

// As autograd does.
void add_gradient(const at::Tensor& leaf, at::Tensor gradient);

// Calls the operator itself, without autograd.
template <class Operator, class... Arguments>
auto forward_only(c10::DispatchKeySet keys, const Arguments&... arguments) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return Operator::redispatch(keys & c10::after_ADInplaceOrView_keyset, arguments...);
}

// From now on layers call the kernels where a thread defers.
void intercept_separable_layers();

}  // namespace muster::detail
