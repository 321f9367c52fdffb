#include <charconv>
#include <fmt/format.h>
#include <muster/checkpoint/state_part.h>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <torch/torch.h>
#include <type_traits>

#include "common/base/text.h"

namespace muster {

namespace {

template <class Number>
constexpr std::string_view kKind = std::is_integral_v<Number> ? "int64:" : "double:";
template <>
constexpr std::string_view kKind<bool> = "bool:";
template <>
constexpr std::string_view kKind<float> = "float:";

// A value is written as its kind and a number: "int64:7". `text` is the part after the kind: "7". Returns
// this number. A bool must be 0 or 1.
template <class Number>
std::optional<Number> number_from(std::string_view text) {
  std::conditional_t<std::is_same_v<Number, bool>, unsigned char, Number> number{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (std::is_same_v<Number, bool> && number > 1) return std::nullopt;
  return static_cast<Number>(number);
}

// Throws if the text is not UTF-8, because names and values are written into the manifest.
void check_text(const std::string& name, std::string_view what, std::string_view text) {
  if (!is_utf8(text))
    throw std::invalid_argument(fmt::format("the {} of {} is not UTF-8", what, one_line(name)));
}

template <class Map, class Value>
void add_once(Map& map, bool own, const std::string& name, Value value) {
  check_text(name, "name", name);
  if (!map.emplace(SavedState::Key(own, name), std::move(value)).second)
    throw std::logic_error(fmt::format("{} is saved twice", name));
}

}  // namespace

void SavedState::shared(const std::string& name, const at::Tensor& tensor, bool finite) {
  slice(name, tensor, {tensor.sizes().vec(), std::vector<std::int64_t>(tensor.sizes().size(), 0)}, finite);
}
void SavedState::slice(const std::string& name, const at::Tensor& tensor, const TensorSlice& slice,
                       bool finite) {
  const auto dimensions = static_cast<std::size_t>(tensor.dim());
  bool fits = slice.shape.size() == dimensions && slice.offsets.size() == dimensions;
  for (std::size_t d = 0; fits && d < dimensions; ++d)
    fits = slice.offsets[d] >= 0 &&
           slice.offsets[d] <= slice.shape[d] - tensor.size(static_cast<std::int64_t>(d));
  if (!fits)
    throw std::invalid_argument(fmt::format("{}: a slice of the shape {} at {} is not within {}", name,
                                            c10::str(tensor.sizes()), c10::str(slice.offsets),
                                            c10::str(slice.shape)));
  add_once(tensors, false, prefix + name,
           Tensor{.kind = Kind::kShared, .tensor = tensor, .slice = slice, .finite = finite});
}
void SavedState::of_first(const std::string& name, const at::Tensor& tensor) {
  const std::vector<std::int64_t> begin(tensor.sizes().size(), 0);
  add_once(tensors, false, prefix + name,
           Tensor{.kind = Kind::kOfFirst, .tensor = tensor, .slice = {tensor.sizes().vec(), begin}});
}
void SavedState::own(const std::string& name, const at::Tensor& tensor) {
  const std::vector<std::int64_t> begin(tensor.sizes().size(), 0);
  add_once(tensors, true, prefix + name,
           Tensor{.kind = Kind::kOwn, .tensor = tensor, .slice = {tensor.sizes().vec(), begin}});
}
void SavedState::shared_value(const std::string& name, const std::string& value) {
  check_text(prefix + name, "value", value);
  add_once(values, false, prefix + name, Value{Kind::kShared, value});
}
void SavedState::value_of_first(const std::string& name, const std::string& value) {
  check_text(prefix + name, "value", value);
  add_once(values, false, prefix + name, Value{Kind::kOfFirst, value});
}
void SavedState::own_value(const std::string& name, const std::string& value) {
  check_text(prefix + name, "value", value);
  add_once(values, true, prefix + name, Value{Kind::kOwn, value});
}

template <class Number>
Number LoadedState::number(const std::string& name) {
  const std::string text = value(name);
  if (text.starts_with(kKind<Number>)) {
    if (const auto number = number_from<Number>(std::string_view(text).substr(kKind<Number>.size())))
      return *number;
  }
  throw std::invalid_argument(fmt::format("its {} is '{}', not {}<number>{}", prefix + name, text,
                                          kKind<Number>, std::is_same_v<Number, int> ? " of 32 bits" : ""));
}

template <class Number>
std::string write_number(Number value) {
  // "{:d}" writes a bool as 0 or 1. "{}" writes the shortest text that reads back as the same number.
  if constexpr (std::is_same_v<Number, bool>) return fmt::format("{}{:d}", kKind<Number>, value);
  return fmt::format("{}{}", kKind<Number>, value);
}

template bool LoadedState::number(const std::string&);
template int LoadedState::number(const std::string&);
template std::int64_t LoadedState::number(const std::string&);
template float LoadedState::number(const std::string&);
template double LoadedState::number(const std::string&);
template std::string write_number(bool);
template std::string write_number(int);
template std::string write_number(std::int64_t);
template std::string write_number(float);
template std::string write_number(double);

}  // namespace muster
