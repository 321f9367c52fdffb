// Finds the exception that ended a program, in the text that the program printed. It reads all forms of
// Python tracebacks, and the message of std::terminate() of C++. If the program is torchrun or another
// launch, it reads the cause that the program names.
//
// It is given the last lines of the program's stderr, so the beginning of the text may be missing. It ignores
// terminal sequences, and the prefix "[rank0]: " of torch. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace muster::launcher {

// Returns one line such as "RuntimeError: bad sample 17 (train.py:6)" or "std::bad_alloc: std::bad_alloc".
// Returns "" if the lines show no exception. If several were printed, as in a chain, returns the last one,
// because nobody caught it. The place in brackets is the innermost frame that is outside of Python's library
// and of installed packages. If the message has several lines, only the first is returned, and at most
// kMaxExceptionBytes of it.
std::string exception_in(std::span<const std::string> lines);

constexpr std::size_t kMaxExceptionBytes = 300;

// Returns the type of an exception that exception_in() has found, if Python raises it for a mistake in a
// script. This is a SyntaxError, ImportError, NameError, AttributeError or TypeError, or a subclass of one of
// these in Python's library. Returns "" for other exceptions. Subclasses of the program itself are not known
// here.
std::string_view mistake_in_script(std::string_view exception);

// Returns the first line of the text, without control bytes. It is cut after kMaxExceptionBytes.
std::string shortened(std::string_view text);

}  // namespace muster::launcher
