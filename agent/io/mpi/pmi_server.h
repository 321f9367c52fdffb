// Owns the sockets of a node's PMI-1 ranks. Each rank inherits one end of a socket pair, and this object
// keeps the other end.
//
// It reads the lines of the ranks, and writes the answers of PmiRanks. If a rank sends more than 64 KiB
// without a line end, or does not read its answers, its socket is closed. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/core/mpi/pmi_ranks.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/net/asio.h"

namespace muster::agent {

class PmiServer : public std::enable_shared_from_this<PmiServer> {
 public:
  struct Listener {
    std::function<void(const wire::MpiAsked&)> asked;
    std::function<void(const std::string&)> remarked;
    std::function<void(LocalRank)> aborted;
    std::function<void()> all_in_barrier;  // all ranks of the node wait in PMI's barrier
  };
  // `plan` and `name` are those of PmiRanks.
  static Expected<std::shared_ptr<PmiServer>> open(const asio::any_io_executor& executor,
                                                   const wire::PrepareAttempt& plan, std::string name,
                                                   Listener listener);
  PmiServer(const PmiServer&) = delete;
  PmiServer& operator=(const PmiServer&) = delete;

  // Returns the end of the socket that the rank inherits. Call rank_runs() when the rank runs. That closes
  // this process's copy of the end.
  int for_rank(LocalRank rank) const { return ends_.at(index_of(rank)).get(); }
  void rank_runs(LocalRank rank) { ends_.at(index_of(rank)).reset(); }
  void hear(const wire::MpiTold& told) { carry(ranks_.on_told(told)); }
  // Does the same as PmiRanks::fault_of(). But first it handles everything that the rank has sent.
  std::string fault_of(LocalRank rank, wire::WorkerExited& exited);
  void close();

 private:
  PmiServer(const wire::PrepareAttempt& plan, std::string name, Listener listener)
      : listener_(std::move(listener)), ranks_(plan, std::move(name)) {}
  static std::size_t index_of(LocalRank rank) { return static_cast<std::size_t>(rank.value()); }
  void wait(LocalRank rank);
  // Handles the lines that the rank has sent. Returns false if no more will come.
  bool read(LocalRank rank);
  void carry(const PmiRanks::Effects& effects);

  Listener listener_;
  PmiRanks ranks_;
  std::vector<UniqueFd> ends_;
  std::vector<asio::posix::stream_descriptor> sockets_;
  std::vector<std::string> unread_;  // incomplete lines
};

}  // namespace muster::agent
