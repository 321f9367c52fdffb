// Treats exceptions that main does not catch as Python does: prints them, writes them to torchrun's error
// file, and exits with code 1.
//
// There is one handler per process, which init() installs. It runs on the thread that threw.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

#include "common/base/clock.h"
#include "common/base/error.h"

namespace muster {

// Properties of an exception that the runtime throws on all ranks of the job in the same way.
struct OnAllRanks {
  bool final = false;  // another attempt would fail in the same way
  bool told = false;   // another rank prints it; this one does not
};

// Returns the content of TORCHELASTIC_ERROR_FILE, in the format of torch.distributed.elastic: "<Type>:
// <text>" and the time. Muster adds these members for its launcher:
// - "final": the launcher need not retry.
// - "told": the launcher should blame another rank, which prints the error.
// - "cause": the launcher compares this text with other failures, not the message. If it is empty, it is
//   omitted.
std::string error_file_content(const std::string& message, std::int64_t unix_seconds,
                               const OnAllRanks& nature = {}, const std::string& cause = {});

// If TORCHELASTIC_ERROR_FILE names a file, writes error_file_content() to it.
void write_error_file(const std::string& message, const OnAllRanks& nature, const std::string& cause = {});

// Returns the text of the exception that is being handled, whatever its type. torch adds the C++ stack to the
// texts of its errors; this function leaves it out.
std::string current_exception_text();
// Returns "<Type>: <text>" of the exception that is being handled. The explanations that are declared below
// can add text to it. If the exception is a torch error, and the explanations add nothing, this function adds
// a description of the batch that this thread was training on.
std::string describe_current_exception();
// The exception that is being handled can have another exception nested in it, and so on. Returns "<Type>:
// <text>" of the innermost exception. The text does not have the additions of describe_current_exception().
std::string cause_of_current_exception();
using Explain = std::function<std::string(const std::string& text)>;
void explain_exceptions_with(Explain explain);  // about the model; replaces the earlier one
// After this call, `explain` can add text to exceptions, too. It knows in which call the training thread is.
// A later call of explain_exceptions_of_threads_with() replaces the function.
void explain_exceptions_of_threads_with(Explain explain);

// Calls `body` and returns its result, a Status or an Expected. If `body` throws, returns the error kInternal
// with the exception's text.
template <class Body>
std::invoke_result_t<Body> without_throwing(Body&& body) {
  try {
    return body();
  } catch (...) {
    return failure(ErrorCode::kInternal, "{}", current_exception_text());
  }
}

// Ends the process as an uncaught exception does: prints the message, writes it to the error file, and exits
// with code 1.
[[noreturn]] void end_with_error(const std::string& message, const OnAllRanks& nature = {},
                                 const std::string& cause = {});

// From now on, an uncaught exception ends the process with exit code 1. Before that, the process prints the
// exception to stderr as "rank <rank>: <Type>: <text>". Under a launcher, which itself prints the rank, it
// prints "<Type>: <text>". If TORCHELASTIC_ERROR_FILE names a file, the process also writes the exception to
// this file.
// - A std::logic_error or std::invalid_argument that comes before the first step, before the first batch, and
//   less than 30 s after `now`, counts as wrong use of Muster. The launcher does not retry after such an
//   error.
// - A Preempted is printed, and the exit code is 75.
void handle_uncaught_exceptions(const std::string& rank, TimePoint now = Clock::now());

}  // namespace muster
