// The owner of concurrent coroutines: cancels them together and can wait for them.
//
// The group must outlive its tasks: cancel(), then wait until empty() (the io_context runs their last steps),
// then destroy it. A task that ends with an exception, other than that of its cancellation, is a bug and
// stops the program. Use a group on one thread.
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
  // Ends every task's pending wait with operation_aborted; the same exception then ends the task. If cancel()
  // is called outside io_context::run(), it takes effect once run() is called.
  void cancel();
  bool empty() const { return cancellations_->empty(); }

 private:
  asio::any_io_executor executor_;
  using Cancellations = std::list<asio::cancellation_signal>;  // one for each task
  std::shared_ptr<Cancellations> cancellations_ = std::make_shared<Cancellations>();
};

}  // namespace muster::net
