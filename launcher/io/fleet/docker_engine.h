// The Docker Engine of this machine, spoken to by its HTTP API over a Unix socket.
//
// Each question has a connection of its own. Errors: kUnavailable, there is no engine, or it went away;
// kPermission, its socket may not be used; kTimedOut; kCorrupt, it speaks no HTTP. An engine that answers
// with an error of its own is an Answer. One thread.
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

// The engine's socket that DOCKER_HOST names, or the usual one. Errors: kInvalidArgument, it is none here.
Expected<std::string> docker_socket(const char* docker_host);

class DockerEngine {
 public:
  struct Request {
    std::string verb;
    std::string target;  // without the version: "/containers/json?all=1"
    std::string body{};  // JSON
    std::string registry_auth{};
    // Of a container's processes.
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
    std::string message() const;  // what the engine says of an error
  };
  // The streams of a container, as the engine multiplexes them.
  struct Streams {
    UnixSocket socket;
    std::string early{};  // what has been read of them
  };
  // A container's end that is waited for.
  class End {
   public:
    virtual ~End() = default;
    // Its exit code. kUnavailable: the engine went away.
    virtual awaitable<Expected<int>> code() = 0;
  };

  DockerEngine(const asio::any_io_executor& executor, std::string socket)
      : executor_(executor), socket_(std::move(socket)) {}

  awaitable<Expected<Answer>> ask(Request request, Duration limit = kLimit);
  // Hands on each line of the answer's body as it comes. Returns it without them; with them if it is an
  // error.
  awaitable<Expected<Answer>> read_lines(Request request, std::function<void(std::string_view)> on_line);
  awaitable<Expected<Streams>> attach(std::string id);
  // Is told of the next end after the return.
  awaitable<Expected<std::unique_ptr<End>>> next_end(std::string id);

  const asio::any_io_executor& executor() const { return executor_; }
  const std::string& socket() const { return socket_; }

  static constexpr Duration kLimit = std::chrono::seconds(60);

 private:
  awaitable<Status> negotiate(TimePoint deadline);

  asio::any_io_executor executor_;
  std::string socket_;
  std::string version_;  // "/v1.41", or empty: not asked yet
};

}  // namespace muster::launcher
