#include "agent/io/signals.h"

#include <csignal>
#include <sys/signalfd.h>
#include <unistd.h>

namespace muster::agent {

namespace {

sigset_t set_of(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

}  // namespace

void block_signals(const std::vector<int>& signals) {
  const sigset_t set = set_of(signals);
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

void unblock_signals(const std::vector<int>& signals) {
  const sigset_t set = set_of(signals);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

awaitable<void> hear_signals(std::vector<int> signals, std::function<void(int signal)> heard) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const sigset_t set = set_of(signals);
  asio::posix::stream_descriptor source(executor, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  for (;;) {
    boost::system::error_code error;
    co_await source.async_wait(asio::posix::stream_descriptor::wait_read,
                               asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
    signalfd_siginfo next{};
    while (read(source.native_handle(), &next, sizeof next) == sizeof next)
      heard(static_cast<int>(next.ssi_signo));
  }
}

}  // namespace muster::agent
