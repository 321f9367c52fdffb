// MUSTER_SOCKET: the datagram socket that receives the workers' reports. From it the agent sends commands to
// those workers that have an address.
//
// - The socket is in the agent's run directory. If the agent runs as root, other users can enter this
//   directory, so the socket has a name that cannot be guessed.
// - Datagrams are accepted from the agent's user, and from descendants of the agent that run as other users.
// - Datagrams that are invalid or too large are ignored.
// - If a stranger learns the path, the stranger can only fill the socket's queue. Heartbeats and steps are
//   lost then.
// The destructor removes the file. One thread.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <sys/socket.h>
#include <utility>

#include "agent/core/health/worker_report.h"
#include "common/base/error.h"
#include "common/net/asio.h"

namespace muster::agent {

class WorkerSocket {
 public:
  // `sender` is the worker's address, for an answer. It is empty if the worker has no address.
  using OnReport = std::function<void(const Report&, const std::string& sender)>;

  static Expected<std::unique_ptr<WorkerSocket>> open(const asio::any_io_executor& executor,
                                                      const std::string& directory, OnReport on_report);
  WorkerSocket(const WorkerSocket&) = delete;
  WorkerSocket& operator=(const WorkerSocket&) = delete;
  ~WorkerSocket();
  const std::string& path() const { return path_; }

  // Receives datagrams until the task is canceled. Cancel it before this object is destroyed.
  awaitable<void> receive_all();
  // Receives the datagrams that have arrived. Call this before a worker is reaped. Afterwards nobody can tell
  // whether the sender was a descendant of this agent.
  void receive_waiting();
  // Sends a datagram with these descriptors, and does not wait. Returns false if the receiver cannot take it
  // now, or does not exist.
  bool send(const std::string& receiver, const std::string& datagram, std::span<const int> fds = {});

 private:
  WorkerSocket(std::string path, asio::posix::stream_descriptor socket, OnReport on_report)
      : path_(std::move(path)), socket_(std::move(socket)), on_report_(std::move(on_report)) {}
  bool is_of_job(const ucred& sender);

  std::string path_;
  asio::posix::stream_descriptor socket_;
  OnReport on_report_;
  std::set<std::pair<pid_t, uid_t>> known_;  // other users' processes that were descendants when they sent
};

}  // namespace muster::agent
