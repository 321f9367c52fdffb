// The weight gradients of one microbatch in one stage, computed later than the gradients of its inputs: what
// zero-bubble schedules fill their bubbles with.
//
// Layers that are separable: linear, convolutions (transposed ones too), embedding (not sparse), layer_norm,
// batch_norm and group_norm, called by a module or as functions. Of the last two only the adding waits: their
// weight gradients are by-products of the inputs'. All others, and parameters with hooks or computed from
// others, have their gradients after backward() as always. backward() may run on other threads than forward,
// but is to be backward(): grad() of some tensors passes by layers that do not lead to them. The gradients
// have no graph of their own (create_graph).
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
  // backward() of a forward that deferred to it throws from now on.
  ~WeightGrads();

  // While it lives, backward() of what this thread computes notes the weight gradients of separable layers in
  // `to`, with the activations that they need, and does not compute them.
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

  // Adds all that was noted to the parameters' grad(), in the order noted, and forgets it. Activations that
  // were changed since forward are an error, as in backward().
  void compute();
  bool empty() const;
  // Whether a separable layer has used the parameter while its gradients were being deferred.
  bool defers(const at::Tensor& parameter) const;

 private:
  std::shared_ptr<detail::WeightNotes> notes_;
};

}  // namespace muster
