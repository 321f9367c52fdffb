// Treats exceptions that main does not catch as Python does: prints them, writes them to torchrun's error
// file, and exits with code 1.
//
// One handler per process, installed by init(). It runs on the thread that threw.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

#include "common/base/clock.h"
#include "common/base/error.h"

namespace muster {

// Properties of the runtime's exceptions that all ranks of the job throw alike.
struct OnAllRanks {
  bool final = false;  // another attempt would fail in the same way
  bool told = false;   // another rank prints it; this one does not
};

// Returns the content of TORCHELASTIC_ERROR_FILE, in the format of torch.distributed.elastic: "<Type>:
// <text>" and the time. Muster adds these members for its launcher:
// - "final": the launcher need not retry.
// - "told": the launcher should blame another rank, which prints the error.
// - "cause": the launcher compares this text, not the message, with other failures; omitted if empty.
std::string error_file_content(const std::string& message, std::int64_t unix_seconds,
                               const OnAllRanks& nature = {}, const std::string& cause = {});

// Writes error_file_content() to the file that TORCHELASTIC_ERROR_FILE names, if any.
void write_error_file(const std::string& message, const OnAllRanks& nature, const std::string& cause = {});

// Returns the text of the exception that is being handled, of any type; without the C++ stack of a torch
// error.
std::string current_exception_text();
// Returns "<Type>: <text>" of the exception that is being handled, followed by what the explanations below
// add. If they add nothing to a torch error, the batch that this thread was training on follows.
std::string describe_current_exception();
// Returns "<Type>: <text>" of the exception nested innermost in the current one, or of the current one
// itself, without the additions of describe_current_exception().
std::string cause_of_current_exception();
using Explain = std::function<std::string(const std::string& text)>;
void explain_exceptions_with(Explain explain);  // about the model; replaces the earlier one
// about the training thread's current call; replaces the earlier one
void explain_exceptions_of_threads_with(Explain explain);

// Returns the result of `body`, a Status or an Expected; if it throws, kInternal with the exception's text.
template <class Body>
std::invoke_result_t<Body> without_throwing(Body&& body) {
  try {
    return body();
  } catch (...) {
    return failure(ErrorCode::kInternal, "{}", current_exception_text());
  }
}

// Ends the process like an uncaught exception: prints the message, writes it to the error file, exits with
// code 1.
[[noreturn]] void end_with_error(const std::string& message, const OnAllRanks& nature = {},
                                 const std::string& cause = {});

// From now on the process prints an uncaught exception to stderr as "rank <rank>: <Type>: <text>" (under a
// launcher, which prefixes the rank, as "<Type>: <text>"), writes it to the file that TORCHELASTIC_ERROR_FILE
// names, if any, and ends with exit code 1.
// - A std::logic_error or std::invalid_argument that comes before the first step, before the first batch, and
//   less than 30 s after `now`, counts as wrong use, which is final.
// - A Preempted is printed, and the exit code is 75.
void handle_uncaught_exceptions(const std::string& rank, TimePoint now = Clock::now());

}  // namespace muster
