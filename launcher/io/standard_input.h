// This process's stdin as the job's input: a terminal, a pipe, a file.
//
// Nobody who shares the terminal or pipe is disturbed: its flags stay as they are. In the background a
// terminal is not read, and does not stop this process; what is typed comes when the job is in the foreground
// again. One thread.
#pragma once

#include "common/net/asio.h"
#include "launcher/io/input.h"

namespace muster::launcher {

class StandardInput final : public Input {
 public:
  // `say`: hears why the input cannot be read any more.
  StandardInput(const asio::any_io_executor& executor, std::function<void(const std::string&)> say);
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

  void read(std::size_t most, OnRead done) override;
  void close();

 private:
  void wait();
  void wait_for_foreground();
  void take();
  void answer(std::string text);

  std::function<void(const std::string&)> say_;
  asio::posix::stream_descriptor input_;
  asio::steady_timer timer_;
  bool is_terminal_;
  std::size_t most_ = 0;
  OnRead done_;
};

}  // namespace muster::launcher
