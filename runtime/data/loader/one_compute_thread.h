// While it lives, operators that the calling thread runs compute in this thread alone.
//
// For what is done to one sample: several samples are read at once, the cores belong to training, and a sum
// that several threads share has other bits than that of one. For one thread, in nested scopes.
#pragma once

namespace muster {

class [[nodiscard]] OneComputeThread {
 public:
  OneComputeThread();
  OneComputeThread(const OneComputeThread&) = delete;
  OneComputeThread& operator=(const OneComputeThread&) = delete;
  ~OneComputeThread();

 private:
  int before_;
};

}  // namespace muster
