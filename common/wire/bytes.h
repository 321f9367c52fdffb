// Bytes in a shared buffer. So received data can be kept without a copy.
//
// The buffer lives as long as any Bytes object refers to it. During that time no thread is allowed to change
// the buffer. Bytes objects are plain values.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace muster::wire {

class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(std::string bytes) {
    auto owned = std::make_shared<const std::string>(std::move(bytes));
    view_ = *owned;
    buffer_ = std::move(owned);
  }
  // `view` must lie within the buffer.
  Bytes(std::shared_ptr<const void> buffer, std::string_view view)
      : buffer_(std::move(buffer)), view_(view) {}

  std::string_view view() const { return view_; }
  Bytes part(std::string_view view) const { return {buffer_, view}; }

 private:
  std::shared_ptr<const void> buffer_;
  std::string_view view_;
};

}  // namespace muster::wire
