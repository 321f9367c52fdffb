// While this object lives, operators that the calling thread runs use only this thread.
//
// Loading one sample needs this: several samples are loaded at once, the cores belong to training, and a sum
// over several threads differs in its last bits. Scopes may be nested within a thread.
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
