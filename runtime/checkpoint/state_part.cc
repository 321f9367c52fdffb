#include "runtime/checkpoint/state_part.h"

#include <charconv>
#include <fmt/core.h>
#include <stdexcept>
#include <string_view>
#include <type_traits>

namespace muster {

namespace {

template <class Number>
constexpr std::string_view kKind = std::is_integral_v<Number> ? "int64:" : "double:";

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

const std::string& LoadedState::value(const std::string& name) const {
  const auto found = values.find(name);
  if (found == values.end()) throw std::invalid_argument(fmt::format("it has no {}", name));
  return found->second;
}

template <class Number>
Number LoadedState::number(const std::string& name) const {
  const std::string& text = value(name);
  Number number{};
  if (text.starts_with(kKind<Number>)) {
    const char* const first = text.data() + kKind<Number>.size();
    const char* const last = text.data() + text.size();
    const auto [end, code] = std::from_chars(first, last, number);
    if (code == std::errc() && end == last && first != last) return number;
  }
  throw std::invalid_argument(fmt::format("its {} is '{}', not {}<number>", name, text, kKind<Number>));
}

template <class Number>
std::string write_number(Number value) {
  return fmt::format("{}{}", kKind<Number>, value);  // the shortest text that reads as the same double
}

template std::int64_t LoadedState::number(const std::string&) const;
template double LoadedState::number(const std::string&) const;
template std::string write_number(std::int64_t);
template std::string write_number(double);

}  // namespace muster
