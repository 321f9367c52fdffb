// The sockets of a node's PMI-1 ranks: each rank inherits one end, and this object keeps the other.
//
// Reads lines and writes the answers of PmiRanks. Stops listening to a rank that sends a line without an end
// or does not read its answers. Held by a shared pointer; one thread.
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
  };
  static Expected<std::shared_ptr<PmiServer>> open(const asio::any_io_executor& executor,
                                                   const wire::PrepareAttempt& plan, Listener listener);
  PmiServer(const PmiServer&) = delete;
  PmiServer& operator=(const PmiServer&) = delete;

  // The end that the rank inherits. rank_runs() closes it here once the rank runs.
  int for_rank(LocalRank rank) const { return ends_.at(index_of(rank)).get(); }
  void rank_runs(LocalRank rank) { ends_.at(index_of(rank)).reset(); }
  void hear(const wire::MpiTold& told) { carry(ranks_.on_told(told)); }
  // First handles everything that the rank has sent.
  std::string fault_of(LocalRank rank, wire::WorkerExited& exited);
  void close();

 private:
  PmiServer(const wire::PrepareAttempt& plan, Listener listener)
      : listener_(std::move(listener)), ranks_(plan) {}
  static std::size_t index_of(LocalRank rank) { return static_cast<std::size_t>(rank.value()); }
  void wait(LocalRank rank);
  // False at the end of the rank's input.
  bool read(LocalRank rank);
  void carry(const PmiRanks::Effects& effects);

  Listener listener_;
  PmiRanks ranks_;
  std::vector<UniqueFd> ends_;
  std::vector<asio::posix::stream_descriptor> sockets_;
  std::vector<std::string> unread_;  // incomplete lines
};

}  // namespace muster::agent
