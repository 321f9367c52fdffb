#include "common/net/task_group.h"

#include <boost/asio/dispatch.hpp>
#include <exception>

#include "common/base/check.h"

namespace muster::net {

namespace {

// Returns whether this is the exception that Asio throws in a canceled task.
bool was_cancelled(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const boost::system::system_error& error) {
    return error.code() == asio::error::operation_aborted;
  } catch (...) {
    return false;
  }
}

}  // namespace

TaskGroup::~TaskGroup() {
  CHECK(empty(), "{} tasks still run", cancellations_->size());
}

void TaskGroup::spawn(awaitable<void> task) {
  const auto place = cancellations_->emplace(cancellations_->end());
  asio::co_spawn(executor_, std::move(task),
                 asio::bind_cancellation_slot(place->slot(), [this, place](const std::exception_ptr& thrown) {
                   if (thrown && !was_cancelled(thrown))
                     std::rethrow_exception(thrown);  // leaves io_context::run() and ends the program
                   cancellations_->erase(place);
                 }));
}

// Cancels by way of dispatch(), so that emit() is called within run(). If emit() were called outside run(),
// Asio would store the addresses of the cancellation signals until run(). But a signal is destroyed if its
// task ends before that.
void TaskGroup::cancel() {
  asio::dispatch(executor_, [tasks = cancellations_] {
    // A task can end within emit(), and then its element is erased. So `next` is moved on before the call.
    for (auto next = tasks->begin(); next != tasks->end();) {
      (next++)->emit(asio::cancellation_type::all);
    }
  });
}

}  // namespace muster::net
