// control.sock in a job's directory: a running launcher answers requests about the job there.
//
// A caller sends one line of JSON and gets lines of JSON; the launcher closes the connection after the last
// line. Only processes of the same user or of root may ask. Never blocks. A caller is disconnected if it is
// slow or silent, or if it sends too much. At most kCallerLimit callers are served at once. The path can be
// longer than the kernel allows for a socket's name. This object must live as long as the task group that it
// was opened with. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/net/asio.h"
#include "common/net/task_group.h"

namespace muster::launcher {

class Caller : public std::enable_shared_from_this<Caller> {
 public:
  // `line` includes its newline. Does nothing once the caller has left.
  void send(std::string_view line);
  // Call after the last line. When everything is written, the connection is closed.
  void finish();

 private:
  friend class ControlSocket;
  using Socket = asio::local::stream_protocol::socket;
  Caller(Socket socket, net::TaskGroup& tasks)
      : socket_(std::move(socket)), tasks_(tasks), timer_(socket_.get_executor()) {}
  void limit_time();
  void close();
  awaitable<void> write();

  Socket socket_;
  net::TaskGroup& tasks_;
  asio::steady_timer timer_;
  std::string pending_;
  bool writing_ = false;
  bool finished_ = false;
};

class ControlSocket {
 public:
  static constexpr int kCallerLimit = 16;
  // Called when a caller has sent its line. `line` does not contain the newline.
  using OnRequest = std::function<void(const std::string& line, std::shared_ptr<Caller> caller)>;
  // Binds the socket, and serves callers from now on.
  static Expected<std::unique_ptr<ControlSocket>> open(const asio::any_io_executor& executor,
                                                       net::TaskGroup& tasks, const std::string& directory,
                                                       OnRequest on_request);
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;
  ~ControlSocket();  // removes the socket's file

 private:
  using Acceptor = asio::local::stream_protocol::acceptor;
  ControlSocket(Acceptor acceptor, net::TaskGroup& tasks, std::string path, OnRequest on_request);
  awaitable<void> accept_all();
  awaitable<void> serve(std::shared_ptr<Caller> caller);
  awaitable<Expected<std::string>> read_line(std::shared_ptr<Caller> caller);

  Acceptor acceptor_;
  net::TaskGroup& tasks_;
  std::string path_;
  OnRequest on_request_;
  int caller_count_ = 0;
};

// The address of DIRECTORY/control.sock. `path` goes through a descriptor of the directory, so the
// directory's own path can have any length. Keep the descriptor open until the address has been used.
struct ControlAddress {
  UniqueFd directory;
  std::string path;
};
Expected<ControlAddress> control_address(const std::string& directory);

}  // namespace muster::launcher
