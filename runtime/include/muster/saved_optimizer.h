// How an optimizer that is not torch's own, such as a fused or a sharded one, shows its state to a
// checkpoint.
//
//   class Lion : public torch::optim::Optimizer, public muster::SavedOptimizer { ... };
//
// Called by the training thread, between two steps.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace muster {

class SavedOptimizer {
 public:
  virtual ~SavedOptimizer() = default;
  // Its name: a checkpoint of another kind does not fit.
  virtual std::string saved_kind() const = 0;
  // The options of a group, as texts by name. What is loaded was saved by this kind.
  virtual std::map<std::string, std::string> saved_options(std::size_t group) const = 0;
  virtual void load_options(std::size_t group, const std::map<std::string, std::string>& options) = 0;

  // A parameter's state: tensors and counts by name. Slices of a tensor, where ranks share a parameter's
  // state out, say where in the whole they lie (TensorSlice); empty: it is the whole.
  struct Field {
    at::Tensor tensor;
    std::vector<std::int64_t> whole_shape{};
    std::vector<std::int64_t> offsets{};
  };
  struct State {
    std::map<std::string, Field> tensors;
    std::map<std::string, std::int64_t> counts;
  };
  // Empty: it has none, or not on this rank.
  virtual State saved_state(const at::Tensor& parameter) const = 0;
  // What state to ask a checkpoint for: tensors of the right shape, which are filled, and counts by name.
  virtual State new_state(const at::Tensor& parameter) const = 0;
  virtual void load_state(const at::Tensor& parameter, State state) = 0;
};

}  // namespace muster
