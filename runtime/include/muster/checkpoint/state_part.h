// The contents of a training's state: tensors and texts by name. A part of the state (model, optimizer, a
// type of the program's own) gives them to a checkpoint and gets them back.
//
//   class Part : public muster::StatePart {
//     void save(muster::SavedState& to) override { to.shared("scale", scale_); }
//     void check(muster::LoadedState& from) override { from.fill("scale", scale_); }
//   };
//   state.add("scaler", std::make_unique<Part>());
//
// Names need not contain the rank, and any number of ranks can load a checkpoint. All ranks must save and
// load the same parts in the same order; a part may use collectives. For the training thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace muster {

// One rank's slice of a tensor that is distributed over several ranks: the shape of the whole tensor, and the
// slice's offsets. The slice has the shape of the rank's tensor.
struct TensorSlice {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> offsets;
};

// A rank's state, offered to a checkpoint. Refers to tensors, which the Checkpointer copies. If a name or a
// value is not UTF-8, the functions throw std::invalid_argument.
class SavedState {
 public:
  // Adds a tensor that is equal on all ranks that have it; one of these ranks writes it. `finite`: the tensor
  // must not contain NaN or infinity.
  void shared(const std::string& name, const at::Tensor& tensor, bool finite = false);
  // Adds this rank's slice of a tensor. All ranks' slices make up the tensor; two ranks' slices must be equal
  // or must not overlap.
  void slice(const std::string& name, const at::Tensor& tensor, const TensorSlice& slice,
             bool finite = false);
  // Adds a tensor that is saved once: the lowest rank that has it saves its own.
  void of_first(const std::string& name, const at::Tensor& tensor);
  void own(const std::string& name, const at::Tensor& tensor);  // every rank saves its own

  // A shared value must be equal on all ranks that have it. A save compares shared values only between ranks
  // that have shared values of the same names.
  void shared_value(const std::string& name, const std::string& value);
  void value_of_first(const std::string& name, const std::string& value);
  void own_value(const std::string& name, const std::string& value);

  enum class Kind { kShared, kOfFirst, kOwn };
  struct Tensor {
    Kind kind{};
    at::Tensor tensor;
    TensorSlice slice;
    bool finite = false;
  };
  struct Value {
    Kind kind{};
    std::string text;
  };
  // The added tensors and values by name, for the Checkpointer. A rank's own tensor or value can have the
  // same name as a shared one.
  using Key = std::pair<bool, std::string>;  // whether the entry is the rank's own, and the entry's name
  std::map<Key, Tensor> tensors;
  std::map<Key, Value> values;
  std::string prefix;  // put before each given name
};

// A checkpoint's state, offered to a rank.
class LoadedState {
 public:
  struct Source;
  explicit LoadedState(std::shared_ptr<Source> source) : source_(std::move(source)) {}

  // For check(): requests that `target` holds the saved tensor, or this slice of it, when load() is called.
  // - If the saved tensor has another shape, throws std::invalid_argument.
  // - If the saved tensor has another type, throws std::invalid_argument, unless RestoreOptions::convert is
  //   set.
  // - If the checkpoint lacks the tensor, returns false. With RestoreOptions::strict, throws
  //   std::invalid_argument instead.
  bool fill(const std::string& name, const at::Tensor& target);
  bool fill(const std::string& name, const at::Tensor& target, const TensorSlice& slice);
  // As fill(), but prefers the tensor that this rank saved with own(), if the checkpoint has it.
  bool fill_own(const std::string& name, const at::Tensor& target);

  // Reads a small tensor of any shape during the call, into the CPU's memory. Throws std::invalid_argument if
  // the tensor is missing.
  at::Tensor read(const std::string& name);
  at::Tensor read_own(const std::string& name);
  // Throws std::invalid_argument if no value has this name.
  std::string value(const std::string& name);
  // Reads a number that write_number() wrote. Throws std::invalid_argument if it is missing or of another
  // type.
  template <class Number>
  Number number(const std::string& name);

  bool has(const std::string& name) const;  // whether a tensor has this name
  // Whether the checkpoint has this rank's own tensor of this name. For example, a checkpoint that 4 ranks
  // saved has none of rank 5.
  bool has_own(const std::string& name) const;
  bool has_value(const std::string& name) const;

  std::string prefix;  // put before each requested name

 private:
  std::shared_ptr<Source> source_;
};

// Returns a text with the number's type and exact value: "int64:7", "double:0.1". `Number` is bool, int
// (written as int64), std::int64_t, float or double.
template <class Number>
std::string write_number(Number value);

class StatePart {
 public:
  virtual ~StatePart() = default;
  virtual void save(SavedState& to) = 0;
  // Requests everything that load() needs. Throws std::invalid_argument, which says what does not fit.
  // Changes nothing itself: the targets given to fill() are filled later, after check() has succeeded for all
  // parts on all ranks.
  virtual void check(LoadedState& from) = 0;
  virtual void load() {}  // called after check(), when all targets are filled
};

}  // namespace muster
