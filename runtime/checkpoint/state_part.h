// One kind of training state (model, optimizer, ...) and what a checkpoint holds of it.
//
// Saving only refers to tensors; the Checkpointer copies them. Loading is in two passes, so that a state is
// changed by a checkpoint that fits as a whole or not at all. All ranks save and load the same parts in the
// same order; a part may use collectives. For the training thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

namespace muster {

using TensorMap = std::map<std::string, at::Tensor>;

// What a rank has to offer. Names are those in docs/checkpoint_layout.md.
struct SavedState {
  TensorMap shared;                           // equal on all ranks, which share out the writing
  TensorMap of_rank_0;                        // rank 0's is the right one
  TensorMap of_rank;                          // each rank's own
  std::map<std::string, std::string> values;  // rank 0's
  std::set<std::string> finite;               // of `shared`: those that may not be NaN or infinite
};

// What a checkpoint has for a rank. Tensors are on the CPU and may be views of one large buffer: copy them.
struct LoadedState {
  TensorMap tensors;
  TensorMap of_rank;  // empty if the checkpoint was written by fewer ranks
  std::map<std::string, std::string> values;

  // std::invalid_argument if there is none of this name, or not of `like`'s shape and type.
  const at::Tensor& tensor(const std::string& name, const at::Tensor& like) const;
  // This rank's own if the checkpoint has one, else rank 0's.
  const at::Tensor& own_tensor(const std::string& name, const at::Tensor& like) const;
  // A list of this type, of any length.
  const at::Tensor& list(const std::string& name, at::ScalarType type) const;
  const std::string& value(const std::string& name) const;
  // What write_number wrote; std::invalid_argument if it is of another kind, or none.
  template <class Number>
  Number number(const std::string& name) const;
};

// A number exactly, with its kind: "int64:7", "double:0.1". For bool, int (an int64 that fits), std::int64_t,
// float and double.
template <class Number>
std::string write_number(Number value);

class StatePart {
 public:
  virtual ~StatePart() = default;
  virtual void save(SavedState& to) = 0;
  // std::invalid_argument says what does not fit. Changes nothing.
  virtual void check(const LoadedState& from) const = 0;
  // After check().
  virtual void load(const LoadedState& from) = 0;
};

}  // namespace muster
