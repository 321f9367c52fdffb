// The agent's end of a worker's socket: a test reads what a rank reports, and sends it orders.
//
// For one thread. If the socket is full (some ten datagrams), further ones wait in the worker, or are lost
// there.
#pragma once

#include <cerrno>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/file.h"

namespace muster {

class FakeAgent {
 public:
  explicit FakeAgent(std::string path)
      : path_(std::move(path)), fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    CHECK(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
  }
  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }

  // Sends an order to the sender of the newest datagram.
  void order(const nlohmann::json& what) {
    const std::string bytes = what.dump();
    sendto(fd_.get(), bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&worker_), worker_size_);
  }
  // Returns the next datagram of this type, or null after 10 s; skips others.
  nlohmann::json next(const std::string& type) {
    for (const TimePoint end = Clock::now() + std::chrono::seconds(10); Clock::now() < end;) {
      pollfd entry{fd_.get(), POLLIN, 0};
      int ready = 0;
      do ready = poll(&entry, 1, 10'000);
      while (ready < 0 && errno == EINTR);  // the signal that asks this thread for its stack interrupts
      if (ready != 1) return nullptr;
      auto message = receive();
      if (message["type"] == type) return message;
    }
    return nullptr;
  }
  // Everything reported so far, except heartbeats.
  std::vector<nlohmann::json> heard() {
    std::vector<nlohmann::json> all;
    for (auto message = receive(); !message.is_null(); message = receive())
      if (message["type"] != "heartbeat") all.push_back(std::move(message));
    return all;
  }

 private:
  // Null if no datagram is there.
  nlohmann::json receive() {
    char bytes[8192];
    worker_size_ = sizeof worker_;
    const ssize_t size = recvfrom(fd_.get(), bytes, sizeof bytes, MSG_DONTWAIT,
                                  reinterpret_cast<sockaddr*>(&worker_), &worker_size_);
    return size < 0 ? nlohmann::json() : nlohmann::json::parse(bytes, bytes + size);
  }

  std::string path_;
  UniqueFd fd_;
  sockaddr_un worker_{};
  socklen_t worker_size_ = 0;
};

}  // namespace muster
