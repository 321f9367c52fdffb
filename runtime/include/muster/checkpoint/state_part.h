// The contents of a training's state: tensors and texts by name. A part of the state is, for example, a
// model, an optimizer, or an object of a class that the program defines. At a save it gives its tensors and
// texts to the checkpoint; at a restore it gets them back.
//
//   class Part : public muster::StatePart {
//     void save(muster::SavedState& to) override { to.shared("scale", scale_); }
//     void check(muster::LoadedState& from) override { from.fill("scale", scale_); }
//   };
//   state.add("scaler", std::make_unique<Part>());
//
// Names need not contain the rank, and any number of ranks can load a checkpoint. All ranks must save and
// load the same parts in the same order; a part may use collectives. Only the training thread uses these
// classes.
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

// One rank's slice of a tensor that is distributed over several ranks. `shape` is the shape of the whole
// tensor, and `offsets` are the slice's offsets in it. The slice has the shape of the rank's tensor.
struct TensorSlice {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> offsets;
};

// The state of a rank for a checkpoint. A SavedState refers to tensors, and the Checkpointer copies them. If
// a name or a value is not UTF-8, the functions throw std::invalid_argument.
class SavedState {
 public:
  // Adds a tensor that is equal on all ranks that have it. One of these ranks writes it. If `finite` is true,
  // the tensor must not contain NaN or infinity.
  void shared(const std::string& name, const at::Tensor& tensor, bool finite = false);
  // Adds this rank's slice of a tensor. The slices of all ranks together must cover the whole tensor. The
  // slices of two ranks must be equal or must not overlap.
  void slice(const std::string& name, const at::Tensor& tensor, const TensorSlice& slice,
             bool finite = false);
  // Adds a tensor that is saved once. If several ranks have it, the lowest of these ranks saves its own.
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
  // The tensors and values that were added, by name. The Checkpointer reads them. A rank's own tensor or
  // value can have the same name as a shared one.
  using Key = std::pair<bool, std::string>;  // whether the entry is the rank's own, and the entry's name
  std::map<Key, Tensor> tensors;
  std::map<Key, Value> values;
  std::string prefix;  // put before each given name
};

// The state in a checkpoint. A rank loads its tensors and texts from this object.
class LoadedState {
 public:
  struct Source;
  explicit LoadedState(std::shared_ptr<Source> source) : source_(std::move(source)) {}

  // A part's check() calls this to request a saved tensor, or a slice of it. When load() is called, `target`
  // holds the values.
  // - If the saved tensor has another shape, throws std::invalid_argument.
  // - If the saved tensor has another type, throws std::invalid_argument, unless RestoreOptions::convert is
  //   set.
  // - If the checkpoint lacks the tensor, returns false. With RestoreOptions::strict, throws
  //   std::invalid_argument instead.
  bool fill(const std::string& name, const at::Tensor& target);
  bool fill(const std::string& name, const at::Tensor& target, const TensorSlice& slice);
  // If the checkpoint has a tensor that this rank saved with own() under this name, requests that tensor.
  // Otherwise works as fill().
  bool fill_own(const std::string& name, const at::Tensor& target);

  // Returns a tensor of any shape, in the CPU's memory. It is read during the call, so it should be small. If
  // the tensor is missing, throws std::invalid_argument.
  at::Tensor read(const std::string& name);
  at::Tensor read_own(const std::string& name);
  // Throws std::invalid_argument if no value has this name.
  std::string value(const std::string& name);
  // Reads a number that write_number() wrote. If it is missing or of another type, throws
  // std::invalid_argument.
  template <class Number>
  Number number(const std::string& name);

  bool has(const std::string& name) const;  // whether a tensor has this name
  // Returns true if the checkpoint has a tensor of this name that this rank saved with own(). For example, a
  // checkpoint of 4 ranks has no such tensor of rank 5.
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
  // check() itself changes nothing. It passes targets to fill(). The targets get their values later, when
  // check() has succeeded for all parts on all ranks.
  virtual void check(LoadedState& from) = 0;
  virtual void load() {}  // called after check(), when all targets are filled
};

}  // namespace muster
