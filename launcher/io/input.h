// The seam to the job's input, which one rank gets.
//
// Nothing here waits, and nothing is read that was not asked for. One thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace muster::launcher {

class Input {
 public:
  // Nothing: the input has ended, or cannot be read any more.
  using OnRead = std::function<void(std::string text)>;
  virtual ~Input() = default;

  // Answered once by at most so many bytes, when there are some; never inside. Not asked again before.
  virtual void read(std::size_t most, OnRead done) = 0;
};

}  // namespace muster::launcher
