// The owner of coroutines that run side by side: they can be cancelled together and waited for.
//
// The group must outlive its tasks: cancel(), then wait until empty() (the io_context runs the ends), before
// destroying it. A task that ends by an exception, but for the one of its being cancelled, is a bug and stops
// the program. One thread.
#pragma once

#include <list>
#include <memory>

#include "common/net/asio.h"

namespace muster::net {

class TaskGroup {
 public:
  explicit TaskGroup(asio::any_io_executor executor) : executor_(std::move(executor)) {}
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;
  ~TaskGroup();

  void spawn(awaitable<void> task);
  // Every task's pending wait ends with operation_aborted, and the task with the next; from outside
  // io_context::run(), when that runs.
  void cancel();
  bool empty() const { return cancellations_->empty(); }

 private:
  asio::any_io_executor executor_;
  using Cancellations = std::list<asio::cancellation_signal>;  // one a task
  std::shared_ptr<Cancellations> cancellations_ = std::make_shared<Cancellations>();
};

}  // namespace muster::net
