// Has a thread that asks the store questions for the engine (engine.h). The engine's own thread must not wait
// for the store, because the server of the store may be unreachable.
//
// A process has only one Asker. It lives as long as the process. The tasks run one after the other, and must
// not throw.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

#include "common/base/quiet_thread.h"

namespace muster::mpi {

class Asker {
 public:
  static Asker& of_process() {
    static auto* one = new Asker;
    return *one;
  }
  void post(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    posted_.notify_one();
  }

 private:
  Asker() {
    start_quiet_thread("muster-mpi-ask", [this](const std::stop_token&) { run(); }).detach();
  }
  [[noreturn]] void run() {
    while (true) {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [this] { return !tasks_.empty(); });
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> tasks_;
};

}  // namespace muster::mpi
