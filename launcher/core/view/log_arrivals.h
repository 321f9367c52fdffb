// What has come of rank logs that agents keep on hosts of their own: which bytes of a piece are new, and what
// is missing at the end.
//
// A piece counts only from the node that its rank belongs to in its attempt. Pieces may come again. Pure; one
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/messages.h"

namespace muster::launcher {

class LogArrivals {
 public:
  struct Key {
    Attempt attempt;
    Rank rank;
    wire::LogFile file = wire::LogFile::kStdout;
    auto operator<=>(const Key&) const = default;
  };
  struct Arrival {
    std::uint64_t left_out_bytes = 0;  // between what is known of the file and this piece
    std::size_t known_bytes = 0;       // of the piece, at its beginning
  };

  // These ranks of the attempt are the node's.
  void belong(NodeId node, Attempt attempt, Rank first_rank, std::int32_t count);
  // The node, on this host, keeps its logs in this directory there.
  void kept_elsewhere(NodeId node, const std::string& host, const std::string& directory);
  // Nothing if the file is none of the node's.
  std::optional<Arrival> on(NodeId node, Attempt attempt, const wire::LogPiece& piece);
  // Of the file, counted from its beginning.
  std::uint64_t arrived_bytes(const Key& key) const;
  // So much that had come could not be written.
  void lost(NodeId node, std::uint64_t bytes) { nodes_[node].missing_bytes += bytes; }
  void told_to_leave(NodeId node) { nodes_[node].leaves = true; }
  // The connection to its agent. Another agent of the node may send later what that one has left.
  void agent_closed(NodeId node);

  // "123 MiB of the logs of node1, node3 are still to come"; empty if nothing is.
  std::string to_come() const;
  // A line for each node of whose logs something is missing here, and for each that was lost.
  std::vector<std::string> missing() const;

 private:
  struct Node {
    std::string host;
    std::string directory;  // empty: it shares the launcher's
    bool took_part = false;
    bool leaves = false;
    std::uint64_t left_bytes = 0;     // to be sent, as it last said
    std::uint64_t missing_bytes = 0;  // that could not be written
    std::uint64_t unsent_bytes = 0;   // of agents that are gone
    bool was_lost = false;            // and may have written more than is known
    Attempt lost_in;                  // the newest one that it had a part in then
  };
  struct Ranks {
    Attempt attempt;
    Rank first;
    auto operator<=>(const Ranks&) const = default;
  };
  struct Owner {
    NodeId node;
    std::int32_t count = 0;
  };

  std::map<NodeId, Node> nodes_;
  std::map<Ranks, Owner> owners_;
  std::map<Key, std::uint64_t> arrived_;
};

}  // namespace muster::launcher
