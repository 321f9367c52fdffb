// What happens to an exception that main does not catch: printed, left in torchrun's error file, exit code 1,
// as in Python.
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

// What an exception of the runtime's own may be as well: one that all ranks of the job have.
struct OnAllRanks {
  bool final = false;  // another attempt would meet it again
  bool told = false;   // another rank prints it, and this one does not
};

// The content of TORCHELASTIC_ERROR_FILE, as torch.distributed.elastic writes it: "<Type>: <text>" and when.
// "final": the launcher need not try again; "told": it rather blames who tells; "cause": it compares
// this with other failures, and not the message; left out if empty.
std::string error_file_content(const std::string& message, std::int64_t unix_seconds,
                               const OnAllRanks& nature = {}, const std::string& cause = {});

// Writes error_file_content() to the file that TORCHELASTIC_ERROR_FILE names, if any.
void write_error_file(const std::string& message, const OnAllRanks& nature, const std::string& cause = {});

// The text of the exception being handled now, whatever it is; of a torch error without its C++ stack.
std::string current_exception_text();
// "<Type>: <text>" of it, with what the explanations, each the last that was given, know of such a text; else
// it is said of a torch error with which batch this thread was training.
std::string describe_current_exception();
// "<Type>: <text>" of the innermost exception that is nested in the current one, or of the current one if
// none is. Without what describe_current_exception() adds.
std::string cause_of_current_exception();
using Explain = std::function<std::string(const std::string& text)>;
void explain_exceptions_with(Explain explain);             // of the model that is trained
void explain_exceptions_of_threads_with(Explain explain);  // of the call that the training thread waits for

// What `body` returns, a Status or an Expected; kInternal with the exception's text if it throws.
template <class Body>
std::invoke_result_t<Body> without_throwing(Body&& body) {
  try {
    return body();
  } catch (...) {
    return failure(ErrorCode::kInternal, "{}", current_exception_text());
  }
}

// Ends the process as an uncaught exception does: prints the message, writes it to the error file and exits
// with 1.
[[noreturn]] void end_with_error(const std::string& message, const OnAllRanks& nature = {},
                                 const std::string& cause = {});

// From now on an uncaught exception prints "rank <rank>: <Type>: <text>" to stderr (under a launcher, which
// says the rank, "<Type>: <text>"), is written to the file that TORCHELASTIC_ERROR_FILE names, if any, and
// ends the process with exit code 1. A std::logic_error or std::invalid_argument less than 30 s from `now`,
// and before the first step and the first batch, is wrong use, and final. A Preempted is printed, and the
// exit code is 75.
void handle_uncaught_exceptions(const std::string& rank, TimePoint now = Clock::now());

}  // namespace muster
