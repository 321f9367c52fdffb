// MUSTER_SOCKET: the datagram socket on which workers report to their agent, and receive its commands if they
// have an address.
//
// It is in the agent's run directory, which other users may enter, so root's agent gives it a name that they
// cannot guess. Takes datagrams of this agent's user, and of other users only from processes that descend
// from this agent, as its workers do. Ignores too large datagrams and garbage. A stranger who learns the path
// can fill the socket's queue, so that heartbeats and steps are lost, but nothing else. Does not know
// attempts or ranks. The destructor removes the file. One thread.
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
  // `sender`: the worker's address, for an answer; empty if the worker has none.
  using OnReport = std::function<void(const Report&, const std::string& sender)>;

  static Expected<std::unique_ptr<WorkerSocket>> open(const asio::any_io_executor& executor,
                                                      const std::string& directory, OnReport on_report);
  WorkerSocket(const WorkerSocket&) = delete;
  WorkerSocket& operator=(const WorkerSocket&) = delete;
  ~WorkerSocket();
  const std::string& path() const { return path_; }

  // Receives datagrams until the task is cancelled, which must happen before this object is destroyed.
  awaitable<void> receive_all();
  // Receives the datagrams that have arrived. Call it before a worker is reaped, because the kernel then no
  // longer knows whose child it was, and before reporting a worker's end.
  void receive_waiting();
  // Sends without waiting, with these descriptors; false if the receiver cannot take the datagram.
  bool send(const std::string& receiver, const std::string& datagram, std::span<const int> fds = {});

 private:
  WorkerSocket(std::string path, asio::posix::stream_descriptor socket, OnReport on_report)
      : path_(std::move(path)), socket_(std::move(socket)), on_report_(std::move(on_report)) {}
  bool is_of_job(const ucred& sender);

  std::string path_;
  asio::posix::stream_descriptor socket_;
  OnReport on_report_;
  std::set<std::pair<pid_t, uid_t>> known_;  // other users' processes that sent something and were of the job
};

}  // namespace muster::agent
