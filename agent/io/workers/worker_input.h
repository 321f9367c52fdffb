// The stdin of the one worker that gets the job's input. It is a pipe. If some input does not fit into the
// pipe, it waits in this object.
//
// At most wire::kInputWindowBytes wait here. If more input comes, it is dropped, and that is logged. This
// object also keeps the reading end of the pipe open, to see how much the worker has read. One thread.
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
  // Called when the agent has written some input into the pipe. look() and close() also call it, if the
  // worker has read more.
  using OnTaken = std::function<void(const wire::InputTaken& taken)>;

  static Expected<std::shared_ptr<WorkerInput>> open(const asio::any_io_executor& executor, OnTaken on_taken);
  WorkerInput(const WorkerInput&) = delete;
  WorkerInput& operator=(const WorkerInput&) = delete;

  int for_worker() const { return reading_.get(); }
  void give(const wire::Input& input);
  // Looks at how much the worker has read. If it is more than at the last call, calls `on_taken`.
  void look();
  // Call this when the worker has ended. It calls look() for the last time, and ends the input.
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
