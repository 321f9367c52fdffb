// CHECK: a bug stops the program where it is seen, in release builds too.
//
// CHECK is for what the program itself guarantees. A failure that a user, a peer or a disk can cause is an
// Error (error.h), not a CHECK.
#pragma once

#include <fmt/format.h>
#include <string>

namespace muster {

// Prints the place, the condition and the message to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace muster

// CHECK(left == right, "left {}, right {}", left, right)
// torch has a macro with this name that takes no message. In the runtime's files, include this header last,
// so that this macro wins.
#undef CHECK
#define CHECK(condition, ...)                                                                \
  do {                                                                                       \
    if (!(condition)) [[unlikely]]                                                           \
      ::muster::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
