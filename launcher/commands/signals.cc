#include "launcher/commands/signals.h"

#include <cerrno>
#include <csignal>
#include <sys/signalfd.h>

#include "common/base/check.h"

namespace muster::launcher {

UniqueFd take_signals() {
  signal(SIGPIPE, SIG_IGN);
  for (const int number : {SIGCHLD, SIGINT, SIGQUIT}) signal(number, SIG_DFL);
  sigset_t taken;
  sigemptyset(&taken);
  sigaddset(&taken, SIGCHLD);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    struct sigaction current{};
    sigaction(number, nullptr, &current);
    if (current.sa_handler != SIG_IGN) sigaddset(&taken, number);
  }
  sigprocmask(SIG_BLOCK, &taken, nullptr);
  UniqueFd fd(signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC));
  CHECK(fd.get() >= 0, "errno {}", errno);
  return fd;
}

}  // namespace muster::launcher
