// The stdin of this process, which is the job's input. It can be a terminal, a pipe or a file.
//
// Does not change the flags of the terminal or pipe, since other programs may share it. While this process is
// in the background, it reads nothing from a terminal, and the terminal does not stop it. The text that is
// typed then arrives when the process is in the foreground again. One thread.
#pragma once

#include "common/net/asio.h"
#include "launcher/io/input.h"

namespace muster::launcher {

// Returns whether somebody has given input to this process. This is so if stdin is a pipe or a file, and not
// if it is a terminal or another device.
bool has_standard_input();

class StandardInput final : public Input {
 public:
  // If the input cannot be read any more, calls `say` with the reason.
  StandardInput(const asio::any_io_executor& executor, std::function<void(const std::string&)> say);
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

  void read(std::size_t most, OnRead done) override;
  // `unread` says how many of the bytes that were read last were not passed to any rank. If stdin is a file,
  // this seeks back by that number. So the next program that reads stdin finds these bytes. For example, a
  // shell script may read the rest of the file in a loop.
  void close(std::size_t unread);

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
