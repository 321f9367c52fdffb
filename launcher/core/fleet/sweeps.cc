#include "launcher/core/fleet/sweeps.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/earliest.h"

namespace muster::launcher {

Sweeps::Actions Sweeps::look(bool kill, TimePoint now) {
  if (nodes_.empty()) return {Seen{.left = {}, .killed = kill}};
  kill_next_ = kill_next_ || kill;
  if (look_) return {};
  look_ = Look{};
  return on_time(now);
}

Sweeps::Actions Sweeps::on_time(TimePoint now) {
  Actions actions;
  if (look_ && !look_->begun && next_look_ <= now) begin(now, actions);
  for (auto& [node, each] : nodes_) {
    if (!each.again_at || *each.again_at > now) continue;
    each.again_at.reset();
    actions.emplace_back(Ask{.node = node, .kill = true, .again = true, .number = each.ended});
  }
  return actions;
}

std::optional<TimePoint> Sweeps::next_deadline() const {
  std::optional<TimePoint> next;
  if (look_ && !look_->begun) next = next_look_;
  for (const auto& [node, each] : nodes_) take_earlier(next, each.again_at);
  return next;
}

void Sweeps::begin(TimePoint now, Actions& actions) {
  look_->begun = true;
  look_->kill = std::exchange(kill_next_, false);
  finish_if_answered(now, actions);
}

// An agent may have ended after its host was asked. Then the answer may not contain the agent's leftovers. So
// this asks the host again at once.
void Sweeps::ask_new_ones(Actions& actions) {
  for (const auto& [node, each] : nodes_) {
    if (each.ended <= look_->asked) continue;
    std::erase_if(look_->left, [node](const Leftover& left) { return left.node == node; });
    look_->waits_for.insert(node);
    actions.emplace_back(Ask{.node = node, .kill = look_->kill, .number = each.ended});
  }
  look_->asked = newest_;
}

void Sweeps::finish_if_answered(TimePoint now, Actions& actions) {
  if (!look_ || !look_->begun || !look_->waits_for.empty()) return;
  ask_new_ones(actions);
  if (!look_->waits_for.empty()) return;
  actions.emplace_back(Seen{.left = std::move(look_->left), .killed = look_->kill});
  look_.reset();
  next_look_ = now + kPeriod;
}

Sweeps::Actions Sweeps::answered(const Ask& asked, std::optional<std::vector<Leftover>> left, TimePoint now) {
  Actions actions;
  if (const auto found = nodes_.find(asked.node); found != nodes_.end()) {
    Node& node = found->second;
    const bool falls_silent = !left && !std::exchange(node.silent, true);
    if (left && left->empty() && node.ended == asked.number)
      nodes_.erase(found);
    else if (asked.again || falls_silent)
      node.again_at = now + kPause;
  }
  if (asked.again || !look_) return actions;
  look_->waits_for.erase(asked.node);
  if (left) std::ranges::move(*left, std::back_inserter(look_->left));
  finish_if_answered(now, actions);
  return actions;
}

bool Sweeps::is_silent(NodeId node) const {
  const auto found = nodes_.find(node);
  return found != nodes_.end() && found->second.silent;
}

}  // namespace muster::launcher
