// Assertions for code in another process of the test, where GoogleTest's would be lost: they throw,
// muster::spawn passes the text on, and the test fails with it.
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
