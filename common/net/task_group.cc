#include "common/net/task_group.h"

#include <exception>

#include "common/base/check.h"

namespace muster::net {

TaskGroup::~TaskGroup() {
  CHECK(cancellations_.empty(), "{} tasks still run", cancellations_.size());
}

void TaskGroup::spawn(awaitable<void> task) {
  const auto place = cancellations_.emplace(cancellations_.end());
  asio::co_spawn(
      executor_, std::move(task),
      asio::bind_cancellation_slot(place->slot(), [this, place](const std::exception_ptr& thrown) {
        if (thrown)
          std::rethrow_exception(thrown);  // out of io_context::run: ends the program, with its text
        cancellations_.erase(place);
      }));
}

void TaskGroup::cancel() {
  // A cancelled task may end inside emit() and erase its place.
  for (auto next = cancellations_.begin(); next != cancellations_.end();) {
    (next++)->emit(asio::cancellation_type::all);
  }
}

}  // namespace muster::net
