// Assertions for code that runs in another process of the test, where GoogleTest's would not be seen: they
// throw, muster::spawn brings the text back, and the test fails with it.
#pragma once

#include <fmt/format.h>
#include <stdexcept>
#include <string>

namespace muster {

template <class Left, class Right>
void require_equal(const Left& left, const Right& right, const std::string& what) {
  if (!(left == right)) throw std::runtime_error(fmt::format("{}: {} is not {}", what, left, right));
}

inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("not so: " + what);
}

}  // namespace muster
