#include "runtime/control/quiet_thread.h"

#include <pthread.h>
#include <signal.h>
#include <utility>

namespace muster {

std::jthread start_quiet_thread(const std::string& name, std::function<void(const std::stop_token&)> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::jthread thread([name, body = std::move(body)](const std::stop_token& stop) {
    pthread_setname_np(pthread_self(), name.c_str());
    body(stop);
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace muster
