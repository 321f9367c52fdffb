// Base classes for optimizers that are not torch's own, such as a fused or a sharded one. An optimizer that
// derives from one of these three classes can give its state to a checkpoint.
//
//   class Lion : public torch::optim::Optimizer, public muster::SavedOptimizer { ... };
//
// The training thread calls the member functions between two steps.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <torch/optim/optimizer.h>
#include <vector>

namespace muster {

class SavedOptimizer {
 public:
  virtual ~SavedOptimizer() = default;
  // Returns the name of the optimizer's kind. An optimizer can only load state of its own kind.
  virtual std::string saved_kind() const = 0;
  // Returns the options of parameter group number `group` as texts by name. After a restore, load_options()
  // gets what saved_options() returned at the save.
  virtual std::map<std::string, std::string> saved_options(std::size_t group) const = 0;
  virtual void load_options(std::size_t group, const std::map<std::string, std::string>& options) = 0;

  // The state of a parameter, that is, tensors and counts by name. If ranks share a parameter's state,
  // whole_shape and offsets give the place of the rank's slice (see TensorSlice). If they are empty, the
  // tensor is the whole state.
  struct Field {
    at::Tensor tensor;
    std::vector<std::int64_t> whole_shape{};
    std::vector<std::int64_t> offsets{};
  };
  struct State {
    std::map<std::string, Field> tensors;
    std::map<std::string, std::int64_t> counts;
  };
  // Returns an empty State if the parameter has no state on this rank.
  virtual State saved_state(const at::Tensor& parameter) const = 0;
  // Returns the state to request from a checkpoint, that is, tensors and counts by name. The tensors must
  // have the right shapes; the restore fills them.
  virtual State new_state(const at::Tensor& parameter) const = 0;
  virtual void load_state(const at::Tensor& parameter, State state) = 0;
};

// Marks a class, such as FusedAdam, that derives from one of torch's optimizers and adds no state.
// Checkpoints store it as torch's optimizer, so each of the two classes can resume from the other's
// checkpoint.
class SavedAsTorchs {
 public:
  virtual ~SavedAsTorchs() = default;
};

// An optimizer that uses another one inside, such as ZeroRedundancyOptimizer. Checkpoints store the state of
// the inner optimizer.
class WrappedOptimizer {
 public:
  virtual ~WrappedOptimizer() = default;
  virtual torch::optim::Optimizer& local() = 0;
  virtual void give_options() = 0;  // copies this object's options to local(), before local() is saved
  virtual void take_options() = 0;  // copies local()'s options to this object, after local() has been loaded
};

}  // namespace muster
