// The stdin of the worker that gets the job's input: a pipe, and the input that does not fit into it yet.
//
// At most the window (wire::kInputWindowBytes) waits; input beyond it is dropped and logged. The pipe's other
// end is also kept here, to see how much the worker has read. Held by a shared pointer. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/net/asio.h"
#include "common/wire/messages.h"

namespace muster::agent {

class WorkerInput : public std::enable_shared_from_this<WorkerInput> {
 public:
  // Called with the amount taken, whenever the pipe takes some, and by look().
  using OnTaken = std::function<void(const wire::InputTaken& taken)>;

  static Expected<std::shared_ptr<WorkerInput>> open(const asio::any_io_executor& executor, OnTaken on_taken);
  WorkerInput(const WorkerInput&) = delete;
  WorkerInput& operator=(const WorkerInput&) = delete;

  int for_worker() const { return reading_.get(); }
  void give(const wire::Input& input);
  // Reports if the worker has read more since the last report.
  void look();
  // The worker has ended: calls look() once more, then stops.
  void close();

 private:
  WorkerInput(const asio::any_io_executor& executor, UniqueFd reading, UniqueFd writing, OnTaken on_taken);
  void write();
  void wait();
  void tell();
  std::int64_t read_bytes() const;

  UniqueFd reading_;
  asio::posix::stream_descriptor writing_;  // closed at the input's end
  OnTaken on_taken_;
  std::string waiting_;
  bool ends_ = false;  // after the waiting input
  bool waits_for_room_ = false;
  std::int64_t written_ = 0;
  std::int64_t told_read_ = 0;
};

}  // namespace muster::agent
