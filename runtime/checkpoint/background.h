// A few threads that wait for tasks and do them in the order in which they come: what writes and reads
// checkpoints.
//
// They are started with the first task and live as long as the object, whose destructor waits for the tasks
// that it was given. `yielding` ones leave processor and disk to training where both want them. Safe to use
// from any thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace muster {

class Background {
 public:
  Background(std::string name, int thread_count, bool yielding)
      : name_(std::move(name)), thread_count_(thread_count), yielding_(yielding) {}
  ~Background();

  // std::system_error if no thread can be started. The future has what the task throws.
  std::future<void> submit(std::function<void()> task);

 private:
  void work(const std::stop_token& stop);

  const std::string name_;
  const int thread_count_;
  const bool yielding_;
  std::mutex mutex_;
  std::condition_variable_any has_tasks_;
  std::deque<std::packaged_task<void()>> tasks_;
  std::vector<std::jthread> threads_;  // the last member: they use the others
};

}  // namespace muster
