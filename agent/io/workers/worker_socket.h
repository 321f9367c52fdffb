// MUSTER_SOCKET: the datagram socket over which workers tell their agent what they are doing, and hear its
// commands if they have an address.
//
// Lives in a directory of its own, mode 0700, under TMPDIR. Datagrams of other users, too large ones and
// garbage are ignored: a worker cannot harm its agent. Does not know attempts or ranks. One thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "agent/core/health/worker_report.h"
#include "common/base/error.h"
#include "common/net/asio.h"

namespace muster::agent {

class WorkerSocket {
 public:
  // `sender`: where an answer goes to; empty if it has no address.
  using OnReport = std::function<void(const Report&, const std::string& sender)>;

  static Expected<std::unique_ptr<WorkerSocket>> open(const asio::any_io_executor& executor,
                                                      OnReport on_report);
  WorkerSocket(const WorkerSocket&) = delete;
  WorkerSocket& operator=(const WorkerSocket&) = delete;
  ~WorkerSocket();
  const std::string& directory() const { return directory_; }
  std::string path() const;

  // Hears datagrams until the task is cancelled, which must happen before this object goes.
  awaitable<void> receive_all();
  // Hears the datagrams that have come by now; to be called before a worker's end is told.
  void receive_waiting();
  // Sends without waiting, with these descriptors; false if nobody takes the datagram.
  bool send(const std::string& receiver, const std::string& datagram, std::span<const int> fds = {});

 private:
  WorkerSocket(std::string directory, asio::posix::stream_descriptor socket, OnReport on_report)
      : directory_(std::move(directory)), socket_(std::move(socket)), on_report_(std::move(on_report)) {}

  std::string directory_;
  asio::posix::stream_descriptor socket_;
  OnReport on_report_;
};

// Removes the directory with all files in it.
void remove_run_directory(const std::string& directory);

}  // namespace muster::agent
