// Lets signals stop a launch before its job runs.
#pragma once

#include <csignal>
#include <functional>
#include <string>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/net/asio.h"

namespace muster::launcher {

// The argument of the functions that prepare a job. It has to outlive their calls.
struct BeforeJob {
  int signals;  // a signalfd: INT, TERM, HUP or QUIT ends the preparation; -1: no signals
  std::function<void(const std::string&)> say;
};

// Waits for the first of these signals.
class StopSignal {
 public:
  // `signals` is a signalfd that the caller keeps. When the first INT, TERM, HUP or QUIT arrives there, calls
  // `on_signal` once, with the number of the signal. If `signals` is -1, never calls `on_signal`, and signals
  // have their usual effect.
  StopSignal(asio::io_context& context, int signals, std::function<void(int)> on_signal)
      : signals_(context), on_signal_(std::move(on_signal)) {
    if (signals < 0) return;
    signals_.assign(dup(signals));
    wait();
  }
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  void cancel() {
    boost::system::error_code ignored;
    signals_.cancel(ignored);
  }

 private:
  void wait() {
    signals_.async_wait(
        asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
          if (error) return;
          signalfd_siginfo info{};
          while (read(signals_.native_handle(), &info, sizeof info) == sizeof info) {
            const auto number = static_cast<int>(info.ssi_signo);
            if (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT)
              return on_signal_(number);
          }
          wait();
        });
  }

  asio::posix::stream_descriptor signals_;
  std::function<void(int)> on_signal_;
};

}  // namespace muster::launcher
