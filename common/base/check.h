// CHECK stops the program if a condition does not hold, in release builds too.
//
// Use CHECK for conditions that only a bug can violate. For failures that a user, a peer or a disk can cause,
// use Error (error.h).
#pragma once

#include <fmt/format.h>
#include <string>

namespace muster {

// Prints the place, the condition and the message to stderr, and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace muster

// Usage: CHECK(left == right, "left {}, right {}", left, right).
//
// torch has another macro with this name. In the runtime's files, include this header last, so that this
// macro is used.
#undef CHECK
#define CHECK(condition, ...)                                                                \
  do {                                                                                       \
    if (!(condition)) [[unlikely]]                                                           \
      ::muster::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
