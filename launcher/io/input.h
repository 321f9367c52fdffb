// The interface to the job's input, which goes to one rank.
//
// Never blocks, and reads no more than requested. One thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace muster::launcher {

class Input {
 public:
  // Called with the text that was read. The text is empty if the input has ended, or if it cannot be read any
  // more.
  using OnRead = std::function<void(std::string text)>;
  virtual ~Input() = default;

  // When there is input, calls `done` once, with at least 1 byte and at most `most` bytes. Never calls `done`
  // before read() returns. Call read() again only after `done` was called.
  virtual void read(std::size_t most, OnRead done) = 0;
};

}  // namespace muster::launcher
