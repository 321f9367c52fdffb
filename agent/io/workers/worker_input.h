// The stdin of the worker that gets the job's input. It is a pipe; input that does not fit into it waits
// here.
//
// At most wire::kInputWindowBytes wait. Input beyond this limit is dropped, which is logged. The pipe's
// reading end is also kept open here, to see how much the worker has read. One thread.
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
  // Called when the pipe has taken some input, and by look().
  using OnTaken = std::function<void(const wire::InputTaken& taken)>;

  static Expected<std::shared_ptr<WorkerInput>> open(const asio::any_io_executor& executor, OnTaken on_taken);
  WorkerInput(const WorkerInput&) = delete;
  WorkerInput& operator=(const WorkerInput&) = delete;

  int for_worker() const { return reading_.get(); }
  void give(const wire::Input& input);
  // Calls `on_taken` if the worker has read more since the last call.
  void look();
  // Call when the worker has ended. Calls look() once more and ends the input.
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
  bool ends_ = false;  // the input ends after `waiting_`
  bool waits_for_room_ = false;
  std::int64_t written_ = 0;
  std::int64_t told_read_ = 0;
};

}  // namespace muster::agent
