// While an object of this class lives, the operators that the calling thread runs do not use other threads.
//
// Workers use it while they load samples. There are three reasons: several workers run at the same time,
// training needs the cores, and a sum that several threads compute can differ in its last bits. A thread can
// have several objects of this class at the same time.
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
