// Owns concurrent coroutines ("tasks"), and cancels them together.
//
// The group must outlive its tasks. To destroy it, call cancel(), and run the io_context until empty() is
// true. A task that ends with an exception is a bug and stops the program, except for the exception that its
// cancellation throws. Use a group on one thread.
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
  // Cancels all tasks. The wait of each task ends with operation_aborted, and this exception ends the task.
  // If cancel() is called outside io_context::run(), it takes effect when run() is called.
  void cancel();
  bool empty() const { return cancellations_->empty(); }

 private:
  asio::any_io_executor executor_;
  using Cancellations = std::list<asio::cancellation_signal>;  // one element for each task
  std::shared_ptr<Cancellations> cancellations_ = std::make_shared<Cancellations>();
};

}  // namespace muster::net
