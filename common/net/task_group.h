// The owner of coroutines that run side by side: they can be cancelled together and waited for.
//
// The group must outlive its tasks: cancel(), then wait until empty() (the io_context runs the ends), before
// destroying it. Cancel while the tasks' sockets are open or from within io_context::run(): from outside of
// it, after the sockets were closed, a cancelled operation is touched that is gone already, which crashes. A
// task that ends by an exception is a bug and stops the program. One thread.
#pragma once

#include <list>

#include "common/net/asio.h"

namespace muster::net {

class TaskGroup {
 public:
  explicit TaskGroup(asio::any_io_executor executor) : executor_(std::move(executor)) {}
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;
  ~TaskGroup();

  void spawn(awaitable<void> task);
  // Every task's pending wait ends with operation_aborted.
  void cancel();
  bool empty() const { return cancellations_.empty(); }

 private:
  asio::any_io_executor executor_;
  std::list<asio::cancellation_signal> cancellations_;
};

}  // namespace muster::net
