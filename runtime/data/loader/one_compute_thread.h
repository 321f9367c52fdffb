// While this object lives, operators that the calling thread runs use only this thread.
//
// Workers use it while they load samples, for three reasons: several workers run at once, training needs the
// cores, and a sum over several threads can differ in its last bits. Objects can be nested within a thread.
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
