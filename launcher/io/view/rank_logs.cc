#include "launcher/io/view/rank_logs.h"

#include <utility>

namespace muster::launcher {

void RankLogs::keep(NodeId node, Attempt attempt, const wire::LogPiece& piece, View::LogAnswer answer) {
  const auto arrival = arrivals_.on(node, attempt, piece);
  // Another node on the same host already sends this file. So the agent is told to send no more of it.
  if (!arrival) return answer({piece.rank, piece.file, piece.offset + piece.text.view().size(), true});
  const Key key{attempt, piece.rank, piece.file};
  auto found = copies_.find(key);
  if (found == copies_.end()) found = copies_.emplace(key, make_copy(node, key)).first;
  Copy& copy = found->second;
  copy.answer = std::move(answer);
  std::string text(piece.text.view().substr(arrival->known_bytes));
  if (arrival->left_out_bytes > 0)
    text = fmt::format(
               "\nmuster: {} bytes are missing here: --log-limit removed them before the agent sent them\n",
               arrival->left_out_bytes) +
           text;
  copy.put_bytes += text.size();
  copy.file->put(text);
  if (piece.last) copy.file->close();
}

RankLogs::Copy RankLogs::make_copy(NodeId node, const Key& key) {
  const bool is_stream = key.file == wire::LogFile::kStdout || key.file == wire::LogFile::kStderr;
  std::shared_ptr<net::LogBudget> budget;
  if (limit_bytes_ > 0 && is_stream) {
    auto& its = budgets_[{key.attempt, key.rank}];
    if (!its) its = std::make_shared<net::LogBudget>(static_cast<std::uint64_t>(limit_bytes_));
    budget = its;
  }
  auto parts = std::make_unique<net::LogParts>(
      fmt::format("{}/attempt_{}/rank_{}/{}", directory_, key.attempt, key.rank, name_of(key.file)),
      UniqueFd(), std::move(budget));
  if (made_.insert(key).second) parts->set_new();
  const std::weak_ptr<RankLogs*> weak = self_;
  const auto trouble = [weak, key](const std::string& what) {
    const auto self = weak.lock();
    if (!self) return;
    if (const auto found = (*self)->copies_.find(key); found != (*self)->copies_.end())
      found->second.stopped = true;
    if (!std::exchange((*self)->told_, true))
      (*self)->say_(what + "; logs of nodes that do not share this directory may be incomplete here");
  };
  Copy copy{.node = node,
            .file = writer_.add(std::move(parts), trouble, net::LogWriter::AfterTrouble::kStop)};
  copy.file->set_on_written([weak, key] {
    if (const auto self = weak.lock()) (*self)->written(key);
  });
  return copy;
}

void RankLogs::written(const Key& key) {
  const auto found = copies_.find(key);
  if (found == copies_.end()) return;
  Copy& copy = found->second;
  const auto progress = copy.file->progress();
  const std::uint64_t lost = copy.file->lost_bytes();
  arrivals_.lost(copy.node, lost - std::exchange(copy.lost_bytes, lost));
  const std::uint64_t done = progress.written_bytes + lost;
  const std::uint64_t waiting = copy.put_bytes - std::min(copy.put_bytes, done);
  const std::uint64_t arrived = arrivals_.arrived_bytes(key);
  copy.answer({.rank = key.rank,
               .file = key.file,
               .bytes = arrived - std::min(arrived, waiting),
               .stopped = copy.stopped});
  if (progress.closed) copies_.erase(found);
}

// No more pieces will arrive, so this closes the node's files as they are.
void RankLogs::agent_closed(NodeId node) {
  arrivals_.agent_closed(node);
  for (const auto& [key, copy] : copies_) {
    if (copy.node == node) copy.file->close();
  }
}

}  // namespace muster::launcher
