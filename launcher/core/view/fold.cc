#include "launcher/core/view/fold.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "launcher/core/view/line_prefix.h"

namespace muster::launcher {

namespace {

// "0-6,8"
template <class Numbers>
std::string ranges_text(const Numbers& ascending) {
  std::string text;
  for (auto it = ascending.begin(); it != ascending.end();) {
    const auto begin = *it;
    auto end = begin;
    while (++it != ascending.end() && *it == end + 1) end = *it;
    text += fmt::format("{}{}", text.empty() ? "" : ",", begin);
    if (end != begin) text += fmt::format("-{}", end);
  }
  return text;
}

}  // namespace

void Fold::add(NodeId node, Rank rank, int stream, std::string_view text, TimePoint now) {
  auto& numbers = numbers_[stream == 1 ? 0 : 1];
  const auto last = last_.find(rank);
  const std::uint64_t after = last == last_.end() ? first_ : last->second + 1;
  if (const auto alike = numbers.find(text); alike != numbers.end()) {
    const auto number = std::ranges::lower_bound(alike->second, after);
    if (number != alike->second.end()) {
      waiting_[*number - first_].from.emplace(rank, node);
      last_[rank] = *number;
      return;
    }
  }
  const std::uint64_t number = first_ + waiting_.size();
  waiting_.push_back({.from = {{rank, node}}, .stream = stream, .text = std::string(text), .at = now});
  waiting_bytes_ += text.size();
  numbers[waiting_.back().text].push_back(number);
  last_[rank] = number;
}

Fold::Line Fold::take_front() {
  auto& numbers = numbers_[waiting_.front().stream == 1 ? 0 : 1];
  const auto alike = numbers.find(waiting_.front().text);
  alike->second.pop_front();
  if (alike->second.empty()) {
    numbers.erase(alike);
  } else {
    // Each key of `numbers` is a view of a waiting line's text. The line that this key belongs to is deleted
    // below. So the key becomes a view of the next line that has the same text.
    auto node = numbers.extract(alike);
    node.key() = waiting_[node.mapped().front() - first_].text;
    numbers.insert(std::move(node));
  }
  Line line = std::move(waiting_.front());
  for (const auto& [rank, node] : line.from) {
    if (const auto last = last_.find(rank); last->second == first_) last_.erase(last);
  }
  waiting_.pop_front();
  waiting_bytes_ -= line.text.size();
  ++first_;
  return line;
}

std::optional<Fold::Line> Fold::take(TimePoint now) {
  const auto deadline = next_deadline();
  if (!deadline || *deadline > now) return std::nullopt;
  return take_front();
}

std::optional<TimePoint> Fold::next_deadline() const {
  if (waiting_.empty()) return std::nullopt;
  if (waiting_bytes_ > kMaxBytes) return waiting_.front().at;
  return waiting_.front().at + kPatience;
}

std::string line_prefix(const std::map<Rank, NodeId>& from, bool color) {
  if (from.size() == 1) return line_prefix(from.begin()->second, from.begin()->first, color);
  std::set<std::int32_t> nodes;
  std::set<std::int32_t> ranks;
  for (const auto& [rank, node] : from) {
    nodes.insert(node.value());
    ranks.insert(rank.value());
  }
  const std::string names = fmt::format("node{}:{}:", ranges_text(nodes), ranges_text(ranks));
  return color ? fmt::format("\x1b[1m{}\x1b[0m ", names) : names + " ";
}

}  // namespace muster::launcher
