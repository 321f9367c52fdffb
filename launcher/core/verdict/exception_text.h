// Finds the exception that ended a program in what the program printed. Reads Python tracebacks in all their
// forms, and the message of C++'s std::terminate(). If the program is torchrun or another launch, reads the
// cause that the program names.
//
// Reads the last lines of the program's stderr; the first lines may be missing. Ignores terminal sequences
// and torch's prefix "[rank0]: ". Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace muster::launcher {

// One line: "RuntimeError: bad sample 17 (train.py:6)", "std::bad_alloc: std::bad_alloc", or "" if the lines
// show no exception. If several were printed, as in a chain, the last one wins: nobody caught it. The place
// is the innermost frame outside of Python's library and of installed packages. Only the first line of a
// longer message is returned, at most kMaxExceptionBytes of it.
std::string exception_in(std::span<const std::string> lines);

constexpr std::size_t kMaxExceptionBytes = 300;

// The type of an exception that exception_in() found, if Python raises it for a mistake in a script: a
// SyntaxError, ImportError, NameError, AttributeError or TypeError, or a subclass from Python's library.
// Otherwise "". A program's own subclasses are not known.
std::string_view mistake_in_script(std::string_view exception);

// The first line, without control bytes, cut after kMaxExceptionBytes.
std::string shortened(std::string_view text);

}  // namespace muster::launcher
