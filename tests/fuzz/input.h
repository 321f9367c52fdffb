// libFuzzer's bytes, read from the front: a few bytes that choose, then text or bytes as they are.
//
// The choices come first, so that a mutation of the rest does not change them. Reading past the end gives
// zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/text.h"

namespace muster {

class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  unsigned byte() { return rest_.empty() ? 0 : static_cast<unsigned char>(take(1)[0]); }
  std::string_view take(std::size_t size) {
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() { return take(rest_.size()); }
  // Takes the bytes before the next `separator`, and skips the separator.
  std::string_view until(char separator) {
    const std::string_view taken = take(rest_.find(separator));
    take(1);
    return taken;
  }

 private:
  std::string_view rest_;
};

// The message must be one line without control characters, for any input.
inline void check_refusal(const Error& error) {
  CHECK(!error.message().empty() && one_line(error.message()) == error.message(), "{}", error.message());
}

}  // namespace muster
