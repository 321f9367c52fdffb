// The seam to the job's input, which goes to one rank.
//
// Never blocks, and reads no more than requested. One thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace muster::launcher {

class Input {
 public:
  // Empty text: the input has ended, or cannot be read any more.
  using OnRead = std::function<void(std::string text)>;
  virtual ~Input() = default;

  // Calls `done` once, as soon as there is input, with 1 to `most` bytes. Never calls `done` before read()
  // returns. Only one read at a time.
  virtual void read(std::size_t most, OnRead done) = 0;
};

}  // namespace muster::launcher
