// Runs tasks on a few threads, in the order in which they were submitted. It is used to write checkpoints.
//
// The threads start with the first task. The destructor waits until all tasks are done. If `yielding` is
// true, the threads have low priority for the processor and for the disk. Any thread can use a Background.
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

// Invariants: the mutex guards `tasks_` and `threads_`. A thread ends only if it was told to stop and all
// tasks are done. So every future that submit() has returned becomes ready.
class Background {
 public:
  Background(std::string name, int thread_count, bool yielding)
      : name_(std::move(name)), thread_count_(thread_count), yielding_(yielding) {}
  ~Background();

  // Throws std::system_error if no thread can be started. If the task throws an exception, the future throws
  // the same one.
  std::future<void> submit(std::function<void()> task);

 private:
  void work(const std::stop_token& stop);

  const std::string name_;
  const int thread_count_;
  const bool yielding_;
  std::mutex mutex_;
  std::condition_variable_any has_tasks_;
  std::deque<std::packaged_task<void()>> tasks_;
  std::vector<std::jthread> threads_;  // the last member: the threads use the members above
};

}  // namespace muster
