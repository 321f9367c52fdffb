#include "launcher/core/job/mpi_exchange.h"

#include <algorithm>
#include <utility>

namespace muster::launcher {

std::vector<MpiExchange::Told> MpiExchange::on(NodeId from, const wire::MpiAsked& asked, const Crew& crew) {
  const Question question{from, asked.number};
  switch (asked.verb) {
    case wire::MpiVerb::kFence: fence(from, asked, crew); break;
    case wire::MpiVerb::kWithdraw: withdraw(from, asked); break;
    case wire::MpiVerb::kPublish: publish(from, asked); break;
    case wire::MpiVerb::kLookUp: look_up(from, asked); break;
    case wire::MpiVerb::kUnpublish:
      if (const auto name = names_.find(asked.key); name != names_.end()) {
        held_bytes_ -= name->second.text.size();
        names_.erase(name);
      }
      answer(question, true);
      break;
    case wire::MpiVerb::kFetch:
      if (!crew.has(asked.wanted)) {
        answer(question, false);
        break;
      }
      told_.push_back({crew.node_of(asked.wanted),
                       {.verb = asked.verb, .number = asked.number, .wanted = asked.wanted, .node = from}});
      break;
    case wire::MpiVerb::kAnswer:
      if (crew.find(asked.node) != nullptr)
        told_.push_back({asked.node, {.number = asked.number, .ok = asked.ok, .text = asked.text}});
      break;
  }
  return std::exchange(told_, {});
}

void MpiExchange::answer(const Question& question, bool ok, std::string text) {
  told_.push_back(
      {question.node, {.number = question.number, .ok = ok, .text = wire::Bytes(std::move(text))}});
}

bool MpiExchange::has_room(const wire::MpiAsked& asked) const {
  return asked.text.view().size() <= kMostBytes - held_bytes_;
}

// A fence collects data of all nodes. When all of them have arrived, each gets the data of all, in the order
// of the nodes.
void MpiExchange::fence(NodeId from, const wire::MpiAsked& asked, const Crew& crew) {
  if (!has_room(asked)) return answer({from, asked.number}, false);
  auto& parts = fences_[asked.key];
  Part& own = parts[from];
  held_bytes_ -= own.text.size();
  own = {asked.number, std::string(asked.text.view())};
  held_bytes_ += own.text.size();
  const auto wanted = std::min(static_cast<std::size_t>(std::max(asked.count, 1)), crew.members().size());
  if (parts.size() < wanted) return;
  std::string all;
  for (const auto& [node, part] : parts) all += part.text;
  held_bytes_ -= all.size();
  const bool fits = all.size() <= wire::kMostMpiBytes;
  for (const auto& [node, part] : parts) answer({node, part.number}, fits, fits ? all : "");
  fences_.erase(asked.key);
}

// If node `from` waits at the fence with this request, ends the fence without success, and answers all nodes
// that wait there. Otherwise only answers `from`. If the fence has completed, `from` already has an answer,
// and its agent ignores the second one. If the agent sent its fence to an earlier launcher, the agent still
// needs the answer.
void MpiExchange::withdraw(NodeId from, const wire::MpiAsked& asked) {
  const auto fence = fences_.find(asked.key);
  if (fence == fences_.end()) return answer({from, asked.number}, false);
  const auto own = fence->second.find(from);
  if (own == fence->second.end() || own->second.number != asked.number)
    return answer({from, asked.number}, false);
  for (const auto& [node, part] : fence->second) {
    held_bytes_ -= part.text.size();
    answer({node, part.number}, false);
  }
  fences_.erase(fence);
}

void MpiExchange::publish(NodeId from, const wire::MpiAsked& asked) {
  const Question question{from, asked.number};
  if (names_.contains(asked.key) || !has_room(asked)) return answer(question, false);
  answer(question, true);
  const std::string text(asked.text.view());
  auto waiting = std::move(waiting_[asked.key]);
  waiting_.erase(asked.key);
  for (; !waiting.empty(); waiting.pop_front()) {
    answer(waiting.front(), true, text);
    if (!asked.ok) continue;
    waiting.pop_front();
    if (!waiting.empty()) waiting_[asked.key] = std::move(waiting);
    return;
  }
  held_bytes_ += text.size();
  names_[asked.key] = {text, asked.ok};
}

void MpiExchange::look_up(NodeId from, const wire::MpiAsked& asked) {
  const Question question{from, asked.number};
  const auto name = names_.find(asked.key);
  if (name == names_.end()) {
    if (asked.ok)
      waiting_[asked.key].push_back(question);
    else
      answer(question, false);
    return;
  }
  answer(question, true, name->second.text);
  if (!name->second.once) return;
  held_bytes_ -= name->second.text.size();
  names_.erase(name);
}

}  // namespace muster::launcher
