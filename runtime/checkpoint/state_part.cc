#include "runtime/checkpoint/state_part.h"

#include <charconv>
#include <fmt/core.h>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <torch/torch.h>
#include <type_traits>

namespace muster {

namespace {

template <class Number>
constexpr std::string_view kKind = std::is_integral_v<Number> ? "int64:" : "double:";
template <>
constexpr std::string_view kKind<bool> = "bool:";
template <>
constexpr std::string_view kKind<float> = "float:";

// What stands after the kind; a bool is written as 0 or 1.
template <class Number>
std::optional<Number> number_from(std::string_view text) {
  std::conditional_t<std::is_same_v<Number, bool>, unsigned char, Number> number{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (std::is_same_v<Number, bool> && number > 1) return std::nullopt;
  return static_cast<Number>(number);
}

const at::Tensor& fitting(const TensorMap& tensors, const std::string& name, const at::Tensor& like) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw std::invalid_argument(fmt::format("it has no {}", name));
  const at::Tensor& saved = found->second;
  if (saved.sizes() != like.sizes()) {
    throw std::invalid_argument(fmt::format("its {} has the shape {}, not {}", name, c10::str(saved.sizes()),
                                            c10::str(like.sizes())));
  }
  if (saved.scalar_type() != like.scalar_type()) {
    throw std::invalid_argument(fmt::format("its {} is of the type {}, not {}", name,
                                            c10::toString(saved.scalar_type()),
                                            c10::toString(like.scalar_type())));
  }
  return saved;
}

}  // namespace

const at::Tensor& LoadedState::tensor(const std::string& name, const at::Tensor& like) const {
  return fitting(tensors, name, like);
}

const at::Tensor& LoadedState::own_tensor(const std::string& name, const at::Tensor& like) const {
  return fitting(of_rank.contains(name) ? of_rank : tensors, name, like);
}

const at::Tensor& LoadedState::list(const std::string& name, at::ScalarType type) const {
  const auto found = tensors.find(name);
  const std::int64_t length = found == tensors.end() ? 0 : found->second.numel();
  return fitting(tensors, name, at::empty({length}, type));
}

const std::string& LoadedState::value(const std::string& name) const {
  const auto found = values.find(name);
  if (found == values.end()) throw std::invalid_argument(fmt::format("it has no {}", name));
  return found->second;
}

template <class Number>
Number LoadedState::number(const std::string& name) const {
  const std::string& text = value(name);
  if (text.starts_with(kKind<Number>)) {
    if (const auto number = number_from<Number>(std::string_view(text).substr(kKind<Number>.size())))
      return *number;
  }
  throw std::invalid_argument(fmt::format("its {} is '{}', not {}<number>{}", name, text, kKind<Number>,
                                          std::is_same_v<Number, int> ? " of 32 bits" : ""));
}

template <class Number>
std::string write_number(Number value) {
  // "{:d}" of a bool is 0 or 1, and "{}" of others the shortest text that reads as the same number.
  if constexpr (std::is_same_v<Number, bool>) return fmt::format("{}{:d}", kKind<Number>, value);
  return fmt::format("{}{}", kKind<Number>, value);
}

template bool LoadedState::number(const std::string&) const;
template int LoadedState::number(const std::string&) const;
template std::int64_t LoadedState::number(const std::string&) const;
template float LoadedState::number(const std::string&) const;
template double LoadedState::number(const std::string&) const;
template std::string write_number(bool);
template std::string write_number(int);
template std::string write_number(std::int64_t);
template std::string write_number(float);
template std::string write_number(double);

}  // namespace muster
