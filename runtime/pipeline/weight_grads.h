// Computes the weight gradients of one microbatch in one stage later than the gradients of the stage's
// inputs. Zero-bubble schedules do this work while they would otherwise wait.
//
// - These layers are separable, called by a module or as functions: linear, convolutions (also transposed),
//   embedding (not sparse), layer_norm, batch_norm and group_norm. For batch_norm and group_norm, backward()
//   computes the weight gradients together with the input's; only adding them to the parameters is deferred.
// - backward() computes all other gradients as always: those of other layers, of parameters with hooks, and
//   of parameters that are computed from others.
// - backward() can run on another thread than the forward pass. Call backward(), not grad(): grad() skips
//   layers that do not lead to the tensors it is asked about.
// - The gradients have no graph: create_graph is not supported.
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
  // If a forward pass has deferred weight gradients to this object, its backward() must not run after this
  // destructor: it would throw an error.
  ~WeightGrads();

  // While a Deferring exists, forward passes in this thread defer weight gradients to `to`. The backward() of
  // such a forward pass does not compute the weight gradients of separable layers. Instead it stores in `to`
  // what compute() needs for these gradients.
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

  // Computes all deferred gradients, in the order in which backward() deferred them. Adds them to the
  // parameters' grad(), and drops what it has used. If an activation has been changed since the forward pass,
  // throws an error, as backward() does.
  void compute();
  bool empty() const;
  // Returns true if a separable layer has used the parameter in a forward pass whose weight gradients were
  // deferred to this object.
  bool defers(const at::Tensor& parameter) const;

 private:
  std::shared_ptr<detail::WeightNotes> notes_;
};

}  // namespace muster
