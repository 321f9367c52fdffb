// Puts samples together into a batch, as torch.utils.data.default_collate does. The type of a sample
// determines the batch:
//
//   at::Tensor                  at::Tensor, stacked along a new first dimension
//   integers, bool              at::Tensor [batch] of int64 or bool
//   float, double               at::Tensor [batch] of that type
//   std::string                 std::vector<std::string>
//   std::pair, std::tuple       a pair or tuple of batches
//   std::vector                 a vector of batches: of the first elements, the second, ...
//   std::map                    a map of batches, by key
//   std::optional               an optional batch; all samples must have a value, or none may
//   a struct of tensors         the same struct, its fields stacked
//   any other struct            the struct that BatchOf names, with one field for the batch of each field
//
// A struct must have no constructors, and one to eight fields, each of a type in this list. Samples are added
// to the batch one by one as they arrive; each tensor is copied once, into memory that the loader reuses.
// Throws std::invalid_argument for a sample whose shape, type or keys differ from the first one's, and for a
// number above the largest int64.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <map>
#include <muster/comm/detail/fields.h>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster {

// Names the batch type of a struct whose fields are not all tensors:
//   template <> struct muster::BatchOf<Review> { using type = ReviewBatch; };
// Each field of ReviewBatch has the type Collated<Field>, where Field is the type of the same field of
// Review. Specialize BatchOf before the first use of Dataset<Review>.
template <class Sample>
struct BatchOf {
  using type = Sample;
};

namespace detail {
template <class Type>
constexpr bool kNever = false;
}

// Puts samples of one type together: add() each, then finish() once. `count` is the expected number of
// samples; there can be fewer. If an add() throws, call truncate() with the number of samples added before;
// the collator can then be used again. This primary template only reports a type that is not in the list at
// the top of this file.
template <class Sample>
class Collator {
 public:  // so that the static_assert is the only error for such a type
  explicit Collator(std::int64_t /*count*/) {}
  void add(const Sample& /*sample*/) {}
  void truncate(std::int64_t /*count*/) {}
  at::Tensor finish() { return {}; }

  static_assert(
      detail::kNever<Sample>,
      "this type cannot be a sample or a part of one. Samples are at::Tensor, numbers, bool, std::string, "
      "std::pair, std::tuple, std::vector, std::optional and std::map by std::string of these, "
      "and plain structs of them, without constructors, base classes, private or virtual members. "
      "In place of an enum use its number. "
      "In place of a constructor write Sample{data, label} (docs/data.md, Samples of your own)");
};

template <class Sample>
using Collated = decltype(std::declval<Collator<Sample>&>().finish());

template <>
class Collator<at::Tensor> {
 public:
  explicit Collator(std::int64_t count) : count_(count) {}
  void add(const at::Tensor& sample);
  void truncate(std::int64_t count);
  at::Tensor finish();

 private:
  std::int64_t count_;
  std::int64_t added_ = 0;
  at::Tensor batch_;
};

namespace detail {

at::Tensor tensor_of(const std::vector<std::int64_t>& values);
at::Tensor tensor_of(const std::vector<float>& values);
at::Tensor tensor_of(const std::vector<double>& values);
at::Tensor tensor_of_flags(const std::vector<std::int64_t>& values);
void check_int64(bool is_in_range);
void check_count(std::size_t count, std::size_t first_count);
void check_presence(bool present, bool first_present);
void check_keys(const std::string& key, bool known, std::size_t count, std::size_t first_count);

template <class Tuple>
class TupleCollator;
template <class... Element>
class TupleCollator<std::tuple<Element...>> {
 public:
  explicit TupleCollator(std::int64_t count) : collators_(Collator<std::remove_cvref_t<Element>>(count)...) {}
  template <class Sample>  // a tuple of references or a pair
  void add(const Sample& sample) {
    add_each(sample, std::index_sequence_for<Element...>());
  }
  void truncate(std::int64_t count) {
    std::apply([count](auto&... collator) { (collator.truncate(count), ...); }, collators_);
  }
  template <class Batch>
  static constexpr bool kMakes =
      requires { Batch{std::declval<Collated<std::remove_cvref_t<Element>>>()...}; };
  template <class Batch>
  Batch finish_as() {
    return std::apply([](auto&... collator) { return Batch{collator.finish()...}; }, collators_);
  }

 private:
  template <class Sample, std::size_t... Index>
  void add_each(const Sample& sample, std::index_sequence<Index...>) {
    (std::get<Index>(collators_).add(std::get<Index>(sample)), ...);
  }
  std::tuple<Collator<std::remove_cvref_t<Element>>...> collators_;
};

}  // namespace detail

template <class Number>
  requires std::is_arithmetic_v<Number>
class Collator<Number> {
 public:
  explicit Collator(std::int64_t count) { values_.reserve(static_cast<std::size_t>(count)); }
  void add(Number sample) {
    if constexpr (std::is_unsigned_v<Number> && sizeof(Number) == sizeof(Held))
      detail::check_int64(std::in_range<std::int64_t>(sample));
    values_.push_back(static_cast<Held>(sample));
  }
  void truncate(std::int64_t count) { values_.resize(static_cast<std::size_t>(count)); }
  at::Tensor finish() {
    if constexpr (std::is_same_v<Number, bool>) return detail::tensor_of_flags(values_);
    return detail::tensor_of(values_);
  }

 private:
  using Held = std::conditional_t<std::is_floating_point_v<Number>, Number, std::int64_t>;
  std::vector<Held> values_;
};

template <>
class Collator<std::string> {
 public:
  explicit Collator(std::int64_t count) { batch_.reserve(static_cast<std::size_t>(count)); }
  void add(std::string sample) { batch_.push_back(std::move(sample)); }
  void truncate(std::int64_t count) { batch_.resize(static_cast<std::size_t>(count)); }
  std::vector<std::string> finish() { return std::move(batch_); }

 private:
  std::vector<std::string> batch_;
};

template <class First, class Second>
class Collator<std::pair<First, Second>> : detail::TupleCollator<std::tuple<First, Second>> {
 public:
  using detail::TupleCollator<std::tuple<First, Second>>::TupleCollator;
  using detail::TupleCollator<std::tuple<First, Second>>::add;
  using detail::TupleCollator<std::tuple<First, Second>>::truncate;
  auto finish() { return this->template finish_as<std::pair<Collated<First>, Collated<Second>>>(); }
};

template <class... Element>
class Collator<std::tuple<Element...>> : detail::TupleCollator<std::tuple<Element...>> {
 public:
  using detail::TupleCollator<std::tuple<Element...>>::TupleCollator;
  using detail::TupleCollator<std::tuple<Element...>>::add;
  using detail::TupleCollator<std::tuple<Element...>>::truncate;
  auto finish() { return this->template finish_as<std::tuple<Collated<Element>...>>(); }
};

template <class Element>
class Collator<std::vector<Element>> {
 public:
  explicit Collator(std::int64_t count) : count_(count) {}
  void add(const std::vector<Element>& sample) {
    if (!begun_) collators_.assign(sample.size(), Collator<Element>(count_));
    begun_ = true;
    detail::check_count(sample.size(), collators_.size());
    for (std::size_t i = 0; i < sample.size(); ++i) collators_[i].add(sample[i]);
  }
  void truncate(std::int64_t count) {
    if (count == 0) begun_ = false;
    for (auto& collator : collators_) collator.truncate(count);
  }
  std::vector<Collated<Element>> finish() {
    std::vector<Collated<Element>> batch;
    for (auto& collator : collators_) batch.push_back(collator.finish());
    return batch;
  }

 private:
  std::int64_t count_;
  bool begun_ = false;
  std::vector<Collator<Element>> collators_;
};

template <class Value>
class Collator<std::map<std::string, Value>> {
 public:
  explicit Collator(std::int64_t count) : count_(count) {}
  void add(const std::map<std::string, Value>& sample) {
    if (!begun_) {
      for (const auto& [key, value] : sample) collators_.try_emplace(key, count_);
    }
    begun_ = true;
    for (const auto& [key, value] : sample)
      detail::check_keys(key, collators_.contains(key), sample.size(), collators_.size());
    for (const auto& [key, value] : sample) collators_.at(key).add(value);
  }
  void truncate(std::int64_t count) {
    if (count == 0) collators_.clear();
    begun_ = count > 0;
    for (auto& [key, collator] : collators_) collator.truncate(count);
  }
  std::map<std::string, Collated<Value>> finish() {
    std::map<std::string, Collated<Value>> batch;
    for (auto& [key, collator] : collators_) batch.emplace(key, collator.finish());
    return batch;
  }

 private:
  std::int64_t count_;
  bool begun_ = false;
  std::map<std::string, Collator<Value>> collators_;
};

template <class Value>
class Collator<std::optional<Value>> {
 public:
  explicit Collator(std::int64_t count) : collator_(count) {}
  void add(const std::optional<Value>& sample) {
    if (!present_) present_ = sample.has_value();
    detail::check_presence(sample.has_value(), *present_);
    if (sample) collator_.add(*sample);
  }
  void truncate(std::int64_t count) {
    if (count == 0) present_.reset();
    collator_.truncate(count);
  }
  std::optional<Collated<Value>> finish() {
    return present_.value_or(false) ? std::optional(collator_.finish()) : std::nullopt;
  }

 private:
  Collator<Value> collator_;
  std::optional<bool> present_;  // in the first sample
};

template <class Struct>
  requires std::is_aggregate_v<Struct>
class Collator<Struct> : detail::TupleCollator<decltype(detail::fields(std::declval<const Struct&>()))> {
  using Base = detail::TupleCollator<decltype(detail::fields(std::declval<const Struct&>()))>;
  using Batch = typename BatchOf<Struct>::type;

 public:
  using Base::Base;
  using Base::truncate;
  void add(const Struct& sample) { Base::add(detail::fields(sample)); }
  Batch finish() {
    if constexpr (Base::template kMakes<Batch>) {
      return this->template finish_as<Batch>();
    } else {
      static_assert(!std::is_same_v<Batch, Struct>,
                    "the fields of this sample are not all tensors, so its batch is another struct, "
                    "such as {at::Tensor x; at::Tensor y;} for {at::Tensor x; float y;}. "
                    "Name it with template <> struct muster::BatchOf<Sample> { using type = SampleBatch; }; "
                    "before the dataset, or make all fields tensors (docs/data.md, Samples of your own)");
      static_assert(std::is_same_v<Batch, Struct>,
                    "the struct that BatchOf names must have, field by field, the batch of the sample's: "
                    "at::Tensor for a tensor or number, std::vector<std::string> for a string "
                    "(muster/collate.h has the list)");
    }
  }
};

template <class Sample>
Collated<Sample> default_collate(const std::vector<Sample>& samples) {
  Collator<Sample> collator(static_cast<std::int64_t>(samples.size()));
  for (const Sample& sample : samples) collator.add(sample);
  return collator.finish();
}

// A batch of sequences of different lengths. Each sequence has the shape [length, ...], and shorter ones are
// padded at the end.
struct PaddedSequences {
  at::Tensor data;     // [batch, longest, ...]
  at::Tensor lengths;  // [batch], int64
};
PaddedSequences pad_sequences(const std::vector<at::Tensor>& sequences, double padding_value = 0);

}  // namespace muster
