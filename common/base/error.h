// Values for expected failures. An Error has a code that tells the caller what to do, and a message for a
// person.
//
// Callers put their context before the message: `cannot load step 400: cannot open manifest.json: No such
// file or directory`.
#pragma once

#include <expected>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

namespace muster {

enum class ErrorCode {
  kInvalidArgument,  // the user gave something wrong: say which field and what would be right; exit code 2
  kNotFound,         // a file, program or peer does not exist
  kPermission,       // it exists, but the user is not allowed to use it in this way
  kUnavailable,      // a peer is gone or cannot be reached: another attempt may work
  kTimedOut,
  kCorrupt,   // the bytes are not what they should be: do not use them
  kFenced,    // a newer attempt or launcher has taken over: stop, do not retry
  kInternal,  // none of these
};

class Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  // Returns this error with `what` before its message: "<what>: <message>".
  Error within(std::string_view what) && { return {code_, fmt::format("{}: {}", what, message_)}; }

 private:
  ErrorCode code_;
  std::string message_;
};

template <class T>
using Expected = std::expected<T, Error>;
using Status = std::expected<void, Error>;

template <class... Arguments>
[[nodiscard]] std::unexpected<Error> failure(ErrorCode code, fmt::format_string<Arguments...> format,
                                             Arguments&&... arguments) {
  return std::unexpected(Error(code, fmt::format(format, std::forward<Arguments>(arguments)...)));
}

// Returns the error of a system call: "<what>: <text of the errno>". The errno determines the code.
[[nodiscard]] std::unexpected<Error> system_failure(std::string_view what, int error_number);

// Returns the error in `failed`, with `what` before its message.
template <class T>
[[nodiscard]] std::unexpected<Error> failure_within(std::string_view what, Expected<T>&& failed) {
  return std::unexpected(std::move(failed).error().within(what));
}

}  // namespace muster
