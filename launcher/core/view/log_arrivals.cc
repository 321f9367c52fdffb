#include "launcher/core/view/log_arrivals.h"

#include <algorithm>
#include <fmt/ranges.h>

#include "common/base/rank_range.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

void LogArrivals::belong(NodeId node, Attempt attempt, Rank first_rank, std::int32_t count) {
  owners_[{attempt, first_rank}] = {node, count};
  nodes_[node].took_part = true;
}

void LogArrivals::kept_elsewhere(NodeId node, const std::string& host, const std::string& directory) {
  Node& its = nodes_[node];
  its.host = host;
  its.directory = directory;
  its.left_bytes = 0;
}

std::optional<LogArrivals::Arrival> LogArrivals::on(NodeId node, Attempt attempt,
                                                    const wire::LogPiece& piece) {
  auto after = owners_.upper_bound({attempt, piece.rank});
  if (after == owners_.begin()) return std::nullopt;
  const auto& [ranks, owner] = *std::prev(after);
  const bool is_its =
      ranks.attempt == attempt && owner.node == node && RankRange(ranks.first, owner.count).has(piece.rank);
  if (!is_its) return std::nullopt;
  Node& its = nodes_[node];
  its.left_bytes = piece.left_bytes;
  if (its.was_lost && attempt <= its.lost_in) {  // its next agent sends the missing bytes
    its.was_lost = false;
    its.unsent_bytes = 0;
  }
  std::uint64_t& arrived = arrived_[{attempt, piece.rank, piece.file}];
  const std::size_t size = piece.text.view().size();
  Arrival arrival;
  if (piece.offset > arrived) {
    arrival.left_out_bytes = piece.offset - arrived;
  } else {
    arrival.known_bytes = std::min<std::uint64_t>(arrived - piece.offset, size);
  }
  arrived = std::max(arrived, piece.offset + size);
  return arrival;
}

std::uint64_t LogArrivals::arrived_bytes(const Key& key) const {
  const auto found = arrived_.find(key);
  return found == arrived_.end() ? 0 : found->second;
}

void LogArrivals::agent_closed(NodeId node) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || found->second.directory.empty()) return;
  Node& its = found->second;
  its.unsent_bytes += std::exchange(its.left_bytes, 0);
  if (!its.took_part || its.leaves) return;
  its.was_lost = true;
  for (const auto& [ranks, owner] : owners_) {
    if (owner.node == node) its.lost_in = std::max(its.lost_in, ranks.attempt);
  }
}

std::string LogArrivals::to_come() const {
  std::uint64_t bytes = 0;
  std::vector<std::string> names;
  for (const auto& [node, its] : nodes_) {
    if (its.left_bytes == 0) continue;
    bytes += its.left_bytes;
    names.push_back(fmt::format("node{}", node));
  }
  if (names.empty()) return "";
  const std::string size = bytes < (1 << 20) ? fmt::format("{} bytes", bytes) : size_text(bytes);
  return fmt::format("{} of the logs of {} are still to come", size, fmt::join(names, ", "));
}

std::vector<std::string> LogArrivals::missing() const {
  std::vector<std::string> lines;
  for (const auto& [node, its] : nodes_) {
    const std::uint64_t bytes = its.missing_bytes + its.unsent_bytes + its.left_bytes;
    if (bytes == 0 && !its.was_lost) continue;
    std::string what = fmt::format("{} bytes of its ranks' logs are missing here", bytes);
    if (its.was_lost) {
      what = "it was lost; the last output of its ranks may be missing here";
      if (bytes > 0) what += fmt::format(" (at least {} bytes)", bytes);
    }
    lines.push_back(fmt::format("node{}: {}; the complete logs are in {} on {}", node, what, its.directory,
                                its.host.empty() ? "its host" : its.host));
  }
  return lines;
}

}  // namespace muster::launcher
