// This process's stdin as the job's input: a terminal, a pipe, a file.
//
// Does not change the flags of the terminal or pipe, since other programs may share it. In the background it
// reads nothing from a terminal, and the terminal does not stop this process; the typed text arrives when the
// job is in the foreground again. One thread.
#pragma once

#include "common/net/asio.h"
#include "launcher/io/input.h"

namespace muster::launcher {

// Whether somebody has given this process input: a pipe or a file, and no terminal or device.
bool has_standard_input();

class StandardInput final : public Input {
 public:
  // Calls `say` with the reason if the input cannot be read any more.
  StandardInput(const asio::any_io_executor& executor, std::function<void(const std::string&)> say);
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

  void read(std::size_t most, OnRead done) override;
  // `unread`: the number of bytes read last that no rank has got. If stdin is a file, seeks back by this
  // number, so that the next reader of stdin finds these bytes: for example a shell's loop over the lines of
  // the file.
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
