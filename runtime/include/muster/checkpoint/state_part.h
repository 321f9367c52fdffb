// What a training's state is made of: tensors and texts by name, and how a part of the state (model,
// optimizer, a type of your own) gives them to a checkpoint and gets them back.
//
//   class Part : public muster::StatePart {
//     void save(muster::SavedState& to) override { to.shared("scale", scale_); }
//     void check(muster::LoadedState& from) override { from.fill("scale", scale_); }
//   };
//   state.add("scaler", std::make_unique<Part>());
//
// Names need not say which rank or file a tensor was in: a checkpoint can be loaded by any number of ranks.
// All ranks save and load the same parts in the same order; a part may use collectives. For the training
// thread.
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

// A rank's part of a tensor that lies on several ranks: the shape of the whole, and where the part begins.
// The part's own shape is that of the rank's tensor.
struct TensorSlice {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> offsets;
};

// What a rank has to offer. Tensors are referred to, and copied by the Checkpointer. Names and values are
// UTF-8, std::invalid_argument otherwise.
class SavedState {
 public:
  // Equal on all ranks that have it; one of them writes it. `finite`: it may have no NaN and no infinity.
  void shared(const std::string& name, const at::Tensor& tensor, bool finite = false);
  // The slices of all ranks make up the tensor; those of two ranks are the same or do not overlap.
  void slice(const std::string& name, const at::Tensor& tensor, const TensorSlice& slice,
             bool finite = false);
  // That of the lowest rank which has it counts.
  void of_first(const std::string& name, const at::Tensor& tensor);
  void own(const std::string& name, const at::Tensor& tensor);  // each rank's own

  // Equal on all ranks that have it, which is checked among those whose shared values have the same names.
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
  // By name, for the Checkpointer. What is each rank's own may have the name of something else.
  using Key = std::pair<bool, std::string>;  // whether it is the rank's own
  std::map<Key, Tensor> tensors;
  std::map<Key, Value> values;
  std::string prefix;  // before each name that is given
};

// What a checkpoint has for a rank.
class LoadedState {
 public:
  struct Source;
  explicit LoadedState(std::shared_ptr<Source> source) : source_(std::move(source)) {}

  // In check(): `target`, or this slice of the whole, is to hold what is saved under the name when load() is
  // called. std::invalid_argument if there is none of this name (false where RestoreOptions::strict is not
  // set), or not of this shape and type.
  bool fill(const std::string& name, const at::Tensor& target);
  bool fill(const std::string& name, const at::Tensor& target, const TensorSlice& slice);
  // This rank's own if the checkpoint has one, else the one of all ranks.
  bool fill_own(const std::string& name, const at::Tensor& target);

  // At once, on the CPU, whatever its shape: for small ones. std::invalid_argument if there is none.
  at::Tensor read(const std::string& name);
  at::Tensor read_own(const std::string& name);
  // std::invalid_argument if there is none.
  std::string value(const std::string& name);
  // What write_number wrote; std::invalid_argument if it is of another kind, or none.
  template <class Number>
  Number number(const std::string& name);

  bool has(const std::string& name) const;      // a tensor
  bool has_own(const std::string& name) const;  // a tensor of this rank's; none if fewer ranks have saved
  bool has_value(const std::string& name) const;

  std::string prefix;  // before each name that is asked for

 private:
  std::shared_ptr<Source> source_;
};

// A number exactly, with its kind: "int64:7", "double:0.1". For bool, int (an int64 that fits), std::int64_t,
// float and double.
template <class Number>
std::string write_number(Number value);

class StatePart {
 public:
  virtual ~StatePart() = default;
  virtual void save(SavedState& to) = 0;
  // Asks for all that load() needs; std::invalid_argument says what does not fit. Changes nothing but what
  // fill() was given, which is filled when the parts of all ranks have found what they need.
  virtual void check(LoadedState& from) = 0;
  virtual void load() {}  // after check(), when all is there
};

}  // namespace muster
