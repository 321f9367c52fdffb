#include "runtime/control/reports.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::chrono::seconds kHeartbeatInterval{1};
// Of a step that was not sent the agent learns by the next heartbeat only, and a worker that is killed sends
// none: so slow steps are always sent.
constexpr std::chrono::milliseconds kStepInterval{10};
constexpr std::chrono::milliseconds kStepBurst = 100 * kStepInterval;
constexpr std::size_t kTextLimitBytes = 512;  // at most 3 KiB when escaped

UniqueFd connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return {};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  return fd;
}

// A thread of ours takes no signal that the program has a handler for.
std::jthread start_without_signals(std::function<void(const std::stop_token&)> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::jthread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

Reports::Reports(const std::string& socket_path, int rank, std::uint64_t attempt)
    : socket_(connect_to(socket_path)), rank_(rank), attempt_(attempt) {
  if (socket_) heart_ = start_without_signals([this](const std::stop_token& stop) { beat(stop); });
}

void Reports::step(std::int64_t step) {
  step_.store(step, std::memory_order_relaxed);
  using Duration = std::chrono::steady_clock::duration;
  const Duration now = std::chrono::steady_clock::now().time_since_epoch();
  const Duration paid = std::max(now, Duration(paid_until_.load(std::memory_order_relaxed))) + kStepInterval;
  if (paid - now > kStepBurst) return;
  paid_until_.store(paid.count(), std::memory_order_relaxed);
  send("step", step);
}

void Reports::send(std::string_view type, std::int64_t step, std::string_view text) {
  if (!socket_) return;
  const nlohmann::json message{{"v", 1},
                               {"type", type},
                               {"rank", rank_},
                               {"attempt", attempt_},
                               {"step", step},
                               {"pid", getpid()},
                               {"text", text.substr(0, kTextLimitBytes)}};
  const std::string bytes = message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // Whatever fails here, a full buffer or an agent that is gone, training goes on.
  [[maybe_unused]] const auto sent =
      ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void Reports::beat(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "muster-heart");
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    send("heartbeat", newest_step());
    wake.wait_for(lock, stop, kHeartbeatInterval, [] { return false; });
  }
}

}  // namespace muster
