// MUSTER_SOCKET: the datagram socket on which workers report to their agent, and receive its commands if they
// have an address.
//
// In its own directory under TMPDIR, which only an agent of root opens to other users: a rank may have
// changed its user. Ignores datagrams of users outside the job, too large ones and garbage, so that nobody
// can harm the agent. Does not know attempts or ranks. One thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "agent/core/health/worker_report.h"
#include "agent/io/job_users.h"
#include "common/base/error.h"
#include "common/net/asio.h"

namespace muster::agent {

class WorkerSocket {
 public:
  // `sender`: the worker's address, for an answer; empty if the worker has none.
  using OnReport = std::function<void(const Report&, const std::string& sender)>;

  static Expected<std::unique_ptr<WorkerSocket>> open(const asio::any_io_executor& executor,
                                                      OnReport on_report);
  WorkerSocket(const WorkerSocket&) = delete;
  WorkerSocket& operator=(const WorkerSocket&) = delete;
  ~WorkerSocket();
  const std::string& directory() const { return directory_; }
  std::string path() const;

  // Receives datagrams until the task is cancelled, which must happen before this object is destroyed.
  awaitable<void> receive_all();
  // Receives the datagrams that have arrived; call before reporting a worker's end.
  void receive_waiting();
  // Sends without waiting, with these descriptors; false if the receiver cannot take the datagram.
  bool send(const std::string& receiver, const std::string& datagram, std::span<const int> fds = {});

 private:
  WorkerSocket(std::string directory, asio::posix::stream_descriptor socket, OnReport on_report)
      : directory_(std::move(directory)), socket_(std::move(socket)), on_report_(std::move(on_report)) {}

  std::string directory_;
  asio::posix::stream_descriptor socket_;
  OnReport on_report_;
  JobUsers users_;
};

// Removes the directory and all files in it.
void remove_run_directory(const std::string& directory);

}  // namespace muster::agent
