#include "agent/io/workers/worker_input.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

#include "common/base/log.h"

namespace muster::agent {

Expected<std::shared_ptr<WorkerInput>> WorkerInput::open(const asio::any_io_executor& executor,
                                                         OnTaken on_taken) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_failure("cannot make a pipe for the worker's stdin", errno);
  UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  // The agent's end of the pipe must not block. The worker's end blocks as usual. The size of the pipe is set
  // here, because the kernel's default depends on the page size.
  fcntl(writing.get(), F_SETFL, O_NONBLOCK);
  fcntl(writing.get(), F_SETPIPE_SZ, static_cast<int>(wire::kInputWindowBytes));
  return std::shared_ptr<WorkerInput>(
      new WorkerInput(executor, std::move(reading), std::move(writing), std::move(on_taken)));
}

WorkerInput::WorkerInput(const asio::any_io_executor& executor, UniqueFd reading, UniqueFd writing,
                         OnTaken on_taken)
    : reading_(std::move(reading)), writing_(executor, writing.release()), on_taken_(std::move(on_taken)) {}

void WorkerInput::give(const wire::Input& input) {
  const std::string_view text = input.text.view();
  if (!on_taken_ || ends_) return;
  if (text.size() > wire::kInputWindowBytes - waiting_.size())
    return log::error("{} bytes of input are dropped: the launcher sends more than its window", text.size());
  waiting_ += text;
  ends_ = input.end;
  if (!waits_for_room_) write();
}

void WorkerInput::write() {
  std::size_t taken = 0;
  while (taken < waiting_.size()) {
    const ssize_t written =
        ::write(writing_.native_handle(), waiting_.data() + taken, waiting_.size() - taken);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;  // the pipe is full
    taken += static_cast<std::size_t>(written);
  }
  waiting_.erase(0, taken);
  written_ += static_cast<std::int64_t>(taken);
  if (taken > 0) tell();
  if (!waiting_.empty()) return wait();
  if (ends_) writing_.close();
}

void WorkerInput::wait() {
  waits_for_room_ = true;
  writing_.async_wait(asio::posix::stream_descriptor::wait_write,
                      [weak = weak_from_this()](const boost::system::error_code& error) {
                        const auto self = weak.lock();
                        if (error || !self || !self->on_taken_) return;
                        self->waits_for_room_ = false;
                        self->write();
                      });
}

void WorkerInput::look() {
  if (on_taken_ && read_bytes() > told_read_) tell();
}

void WorkerInput::close() {
  look();
  on_taken_ = nullptr;
  if (writing_.is_open()) writing_.close();
}

void WorkerInput::tell() {
  told_read_ = read_bytes();
  on_taken_({.written_bytes = written_, .read_bytes = told_read_});
}

std::int64_t WorkerInput::read_bytes() const {
  int in_pipe = 0;
  if (ioctl(reading_.get(), FIONREAD, &in_pipe) != 0) in_pipe = 0;
  return written_ - in_pipe;
}

}  // namespace muster::agent
