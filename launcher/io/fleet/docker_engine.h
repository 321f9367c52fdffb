// A client of the Docker Engine on this machine. It uses the HTTP API of the engine over a Unix socket.
//
// Each request has a connection of its own. If the engine reports an error, the request returns an Answer
// with the status and the text of this error. If there is no answer, the request returns one of these errors:
// - kUnavailable: no engine is there, or it went away;
// - kPermission: this user is not allowed to use the engine's socket;
// - kTimedOut;
// - kCorrupt: the peer does not speak HTTP.
// One thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/net/asio.h"

namespace muster::launcher {

using UnixSocket = asio::local::stream_protocol::socket;

// Returns the socket of the engine. This is the one that DOCKER_HOST names, or else the usual one. Returns
// kInvalidArgument if DOCKER_HOST is not the path of a Unix socket.
Expected<std::string> docker_socket(const char* docker_host);

class DockerEngine {
 public:
  struct Request {
    std::string verb;
    std::string target;  // without the version: "/containers/json?all=1"
    std::string body{};  // JSON
    std::string registry_auth{};
    // A request that kills a container.
    static Request kill(const std::string& container) {
      return {.verb = "POST", .target = "/containers/" + container + "/kill?signal=KILL"};
    }
  };
  struct Answer {
    int status = 0;
    std::string body{};
    bool good() const { return status < 400; }
    bool is_missing() const { return status == 404; }
    bool is_conflict() const { return status == 409; }
    std::string message() const;  // the engine's text for an error
  };
  // The streams of a container. The engine sends them mixed over one socket.
  struct Streams {
    UnixSocket socket;
    std::string early{};  // bytes already read from `socket`
  };
  // A request that waits until a container ends.
  class End {
   public:
    virtual ~End() = default;
    // Waits, and returns the exit code of the container. Returns kUnavailable if the engine went away.
    virtual awaitable<Expected<int>> code() = 0;
  };

  DockerEngine(const asio::any_io_executor& executor, std::string socket)
      : executor_(executor), socket_(std::move(socket)) {}

  awaitable<Expected<Answer>> ask(Request request, Duration limit = kLimit);
  // Calls `on_line` for each line of the body when it arrives. The answer that is returned does not have
  // these lines. If the answer is an error, it has its whole body, and `on_line` is not called.
  awaitable<Expected<Answer>> read_lines(Request request, std::function<void(std::string_view)> on_line);
  awaitable<Expected<Streams>> attach(std::string id);
  // Asks the engine to wait for the container's next end. Returns as soon as the engine has begun to wait.
  // End::code() returns when the container has ended.
  awaitable<Expected<std::unique_ptr<End>>> next_end(std::string id);

  const asio::any_io_executor& executor() const { return executor_; }
  const std::string& socket() const { return socket_; }

  static constexpr Duration kLimit = std::chrono::seconds(60);

 private:
  awaitable<Status> negotiate(TimePoint deadline);

  asio::any_io_executor executor_;
  std::string socket_;
  std::string version_;  // "/v1.41"; empty until negotiated
};

}  // namespace muster::launcher
