// Computes the weight gradients of one microbatch in one stage later than the gradients of its inputs.
// Zero-bubble schedules fill their bubbles with this work.
//
// - Separable layers: linear, convolutions (transposed ones too), embedding (not sparse), layer_norm,
//   batch_norm and group_norm, called by a module or as functions. For batch_norm and group_norm only the
//   addition waits: their weight gradients are by-products of the inputs' gradients.
// - All other layers, and parameters with hooks or computed from others, have their gradients after
//   backward(), as always.
// - backward() may run on another thread than the forward pass. Call backward(), not grad(): grad() of some
//   tensors skips layers that do not lead to them.
// - The gradients have no graph (create_graph).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <memory>

namespace muster {

namespace detail {
class WeightNotes;
}

class WeightGrads {
 public:
  WeightGrads();
  WeightGrads(WeightGrads&&) noexcept = default;
  WeightGrads& operator=(WeightGrads&&) = delete;
  // From now on backward() throws if its forward pass deferred to this object.
  ~WeightGrads();

  // While a Deferring lives, this thread's forward passes defer: their backward() only notes in `to` the
  // weight gradients of separable layers, with the activations from which they are computed.
  class Deferring {
   public:
    explicit Deferring(WeightGrads& to);
    Deferring(const Deferring&) = delete;
    Deferring& operator=(const Deferring&) = delete;
    ~Deferring();

   private:
    std::shared_ptr<detail::WeightNotes> notes_;
    const std::shared_ptr<detail::WeightNotes>* outer_;
    c10::impl::IncludeDispatchKeyGuard intercepting_;
  };

  // Computes all noted gradients in the order noted, adds them to the parameters' grad(), and drops the
  // notes. Throws if an activation was changed since the forward pass, as backward() does.
  void compute();
  bool empty() const;
  // Returns whether a separable layer has used the parameter while its gradients were being deferred.
  bool defers(const at::Tensor& parameter) const;

 private:
  std::shared_ptr<detail::WeightNotes> notes_;
};

}  // namespace muster
