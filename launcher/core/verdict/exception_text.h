// Which exception ended a program that only printed it: Python's traceback in all its forms, and what
// std::terminate() says in C++.
//
// Reads the last lines that the program wrote to stderr, of which the first may be missing. Sequences for
// terminals and torch's prefix "[rank0]: " are ignored. Pure.
#pragma once

#include <span>
#include <string>

namespace muster::launcher {

// One line: "RuntimeError: bad sample 17 (train.py:6)", "std::bad_alloc: std::bad_alloc", or "" if the lines
// tell of none. Of several exceptions it is the last that was printed, as in a chain: the one that nobody
// caught. The place is the innermost one outside of Python's own library and of installed packages. Only the
// first line of a longer message is given, and at most kMaxExceptionBytes of it.
std::string exception_in(std::span<const std::string> lines);

constexpr std::size_t kMaxExceptionBytes = 300;

// One line for people: without control bytes, and cut after kMaxExceptionBytes.
std::string shortened(std::string_view text);

}  // namespace muster::launcher
