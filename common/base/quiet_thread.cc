#include "common/base/quiet_thread.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <system_error>
#include <utility>

#include "common/base/process_limits.h"

namespace muster {

namespace {

// Blocks all signals in this thread while this object lives. If the thread starts another thread, that one
// also begins with blocked signals.
class [[nodiscard]] BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

std::jthread start_quiet_thread(const std::string& name, std::function<void(const std::stop_token&)> body) {
  const BlockSignals until_started;
  try {
    return std::jthread([name, body = std::move(body)](const std::stop_token& stop) {
      pthread_setname_np(pthread_self(), name.c_str());
      body(stop);
    });
  } catch (const std::system_error& error) {
    const std::string limit = nearest_process_limit(error.code().value());
    throw std::system_error(error.code(), fmt::format("cannot start the thread {}{}", name, limit));
  }
}

}  // namespace muster
