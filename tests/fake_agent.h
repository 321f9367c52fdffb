// The agent's end of a worker's socket: what a rank says can be read, and it can be given orders.
//
// For one thread. What the socket has no room for (some ten datagrams) waits in the worker, or is lost there.
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

  // To the sender of the newest datagram.
  void order(const nlohmann::json& what) {
    const std::string bytes = what.dump();
    sendto(fd_.get(), bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&worker_), worker_size_);
  }
  // The next datagram that is of this type; waits for 10 s at most.
  nlohmann::json next(const std::string& type) {
    for (const TimePoint end = Clock::now() + std::chrono::seconds(10); Clock::now() < end;) {
      pollfd entry{fd_.get(), POLLIN, 0};
      int ready = 0;
      do ready = poll(&entry, 1, 10'000);
      while (ready < 0 && errno == EINTR);  // by the signal that asks for this thread's stack
      if (ready != 1) return nullptr;
      auto message = receive();
      if (message["type"] == type) return message;
    }
    return nullptr;
  }
  // All that has been said by now, but heartbeats.
  std::vector<nlohmann::json> heard() {
    std::vector<nlohmann::json> all;
    for (auto message = receive(); !message.is_null(); message = receive())
      if (message["type"] != "heartbeat") all.push_back(std::move(message));
    return all;
  }

 private:
  // Null if there is none.
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
