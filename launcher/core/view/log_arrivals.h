// Agents on other hosts keep the logs of their ranks, and send them in pieces. This knows which bytes of a
// piece are new, and what is missing at the end.
//
// Accepts a piece only from the node that has the rank in that attempt. Pieces may arrive twice. Pure; one
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
    std::uint64_t left_out_bytes = 0;  // gap between the known bytes of the file and this piece
    std::size_t known_bytes = 0;       // bytes at the start of the piece that are already known
  };

  // Notes which ranks the node has in the attempt.
  void belong(NodeId node, Attempt attempt, Rank first_rank, std::int32_t count);
  // Notes that the logs of the node stay on `host`, where the node is, in `directory`.
  void kept_elsewhere(NodeId node, const std::string& host, const std::string& directory);
  // Returns nullopt if the file does not belong to the node.
  std::optional<Arrival> on(NodeId node, Attempt attempt, const wire::LogPiece& piece);
  // Returns how many bytes of the file have arrived. They are counted from the file's beginning.
  std::uint64_t arrived_bytes(const Key& key) const;
  // Notes that `bytes` have arrived, but could not be written.
  void lost(NodeId node, std::uint64_t bytes) { nodes_[node].missing_bytes += bytes; }
  void told_to_leave(NodeId node) { nodes_[node].leaves = true; }
  // Call when the connection to the node's agent has closed. If some bytes of its logs have not arrived, the
  // next agent of this node may still send them.
  void agent_closed(NodeId node);

  // Returns a text such as "123 MiB of the logs of node1, node3 are still to come". Returns an empty text if
  // nothing is missing.
  std::string to_come() const;
  // Returns a line for each node whose logs are incomplete, and for each node that was lost.
  std::vector<std::string> missing() const;

 private:
  struct Node {
    std::string host;
    std::string directory;  // empty: it uses the launcher's directory
    bool took_part = false;
    bool leaves = false;
    std::uint64_t left_bytes = 0;     // still to be sent, according to its last piece
    std::uint64_t missing_bytes = 0;  // arrived, but could not be written
    std::uint64_t unsent_bytes = 0;   // not sent by agents that have gone
    bool was_lost = false;            // its ranks may have written more than is known
    Attempt lost_in;                  // the newest attempt that it took part in
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
