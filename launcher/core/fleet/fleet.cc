#include "launcher/core/fleet/fleet.h"

#include <algorithm>
#include <utility>

#include "common/base/earliest.h"
#include "common/wire/frame.h"
#include "launcher/core/fleet/hello.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

Fleet::Outcome Fleet::on_time(TimePoint now, bool noticed_late) {
  if (noticed_late) forgiven_ = now;
  check_half_gone(now);
  check_silence(now);
  check_leftovers(now);
  return std::exchange(outcome_, {});
}

std::optional<TimePoint> Fleet::next_deadline() const {
  std::optional<TimePoint> next;
  if (!order_.empty()) next = silent_at(at(order_.begin()->second));
  if (!half_gone_.empty()) take_earlier(next, half_gone_.front().since + kHalfGoneLimit);
  if (leftovers_) take_earlier(next, leftovers_->look_at);
  return next;
}

void Fleet::add(NodeId node) {
  if (nodes_.try_emplace(node).second) absent_.insert(node);
}

FleetDecisions Fleet::hire(NodeId id, TimePoint now, std::string reason) {
  Node& node = at(id);
  absent_.erase(id);
  node.presence = Presence::kComing;
  node.incarnation = node.incarnation.next();
  node.process = true;
  ++process_count_;
  if (!limits_.starts_are_watched) listen_for(id, now);
  decide(StartAgent{{id, node.incarnation}}, std::move(reason));
  return take_decisions();
}

FleetDecisions Fleet::drop(NodeId id, TimePoint lost_at, const std::string& why, TimePoint now) {
  const Node& node = at(id);
  if (node.connection) decide(CloseConnection{*node.connection}, why);
  decide(KillAgent{{id, node.incarnation}}, why);
  forget(id, lost_at);
  expect_leftovers(now, now + kCheckPeriod);
  return take_decisions();
}

// Counts the node's silence from `from` on.
void Fleet::listen_for(NodeId id, TimePoint from) {
  Node& node = at(id);
  auto place = order_.extract({node.silent_since(), id});
  node.last_heard = from;
  node.slept = slept_;
  if (place.empty()) {
    order_.emplace(node.silent_since(), id);
    return;
  }
  place.value().first = node.silent_since();
  order_.insert(std::move(place));
}

// Refuses a connection if its agent was replaced or killed before the connection came. Also refuses a second
// connection of the same agent.
void Fleet::handle(const AgentConnected& event, TimePoint now) {
  Node* const node = find(event.agent);
  if (node == nullptr || node->presence != Presence::kComing || !node->process || node->connection)
    return decide(CloseConnection{event.connection}, "its agent is not expected");
  node->connection = event.connection;
  if (limits_.starts_are_watched) listen_for(event.agent.node, now);
  decide(AcceptConnection{event.agent, event.connection}, "its agent was started and is expected");
}

// This waits a moment for the end of the agent's process, because the exit status of the process tells the
// cause. The kernel reports that end right after it has closed the connections of the process. If the process
// has ended already, the fleet has now read everything that the agent sent. Then the node is lost.
void Fleet::handle(const ConnectionClosed& event, TimePoint now) {
  Node* const node = find(event.agent);
  if (node == nullptr || node->connection != event.connection) return;
  node->connection.reset();
  if (!node->ends_since) node->ends_since = now;
  if (!node->process) return lose(event.agent.node, now);
  if (releasing_) return;
  // An agent without a connection is useless. It has to end before its successor starts.
  if (event.unreadable.empty()) return half_gone_.push_back({event.agent, now});
  // An agent whose first frame cannot be read is probably of another version. Its successor would be, too.
  const bool greeted = node->presence == Presence::kThere;
  kill_for(event.agent, *node, "sent an unreadable frame: " + event.unreadable,
           greeted ? AgentEnd::kOther : AgentEnd::kRefused);
}

void Fleet::handle(const ProcessEnded& event, TimePoint now) {
  if (leftovers_) leftovers_->look_at = now;
  Node* const node = find(event.agent);
  if (node == nullptr || !node->process) return;
  node->process = false;
  --process_count_;
  if (!node->ends_since) node->ends_since = now;
  // If the kernel killed the agent for lack of memory, that is the cause, even if the launcher wanted to kill
  // it.
  const bool by_itself = node->killed_for.empty() || event.end == AgentEnd::kOutOfMemory;
  node->how = by_itself ? event.how : "its agent " + node->killed_for;
  if (by_itself) node->end = event.end;
  if (!node->connection) return lose(event.agent.node, now);
  half_gone_.push_back({event.agent, now});
}

void Fleet::handle(const AgentSaid& event, TimePoint now) {
  Node* const node = find(event.agent);
  if (node == nullptr) return;
  const TimePoint heard = event.heard_at.value_or(now);
  if (heard > node->last_heard) listen_for(event.agent.node, heard);
  if (const auto* pong = std::get_if<wire::Pong>(&event.message)) node->output_waits = pong->output_waits;
  if (const auto* left = std::get_if<wire::LeftoversUnkillable>(&event.message)) {
    for (const Leftover& each : left->left) named_[event.agent.node].insert(each.pid);
  }
  if (const auto* hello = std::get_if<wire::Hello>(&event.message)) greet(event.agent, *node, *hello);
}

void Fleet::greet(AgentId agent, Node& node, const wire::Hello& hello) {
  if (node.presence != Presence::kComing || !node.killed_for.empty()) return;
  if (const Status same = check_hello(hello, {agent, limits_.version}); !same)
    return kill_for(
        agent, node, "cannot be used: " + same.error().message(),
        same.error().code() == ErrorCode::kInvalidArgument ? AgentEnd::kRefused : AgentEnd::kOther);
  node.presence = Presence::kThere;
  ++there_count_;
  outcome_.news.emplace_back(NodeJoined{agent.node, hello.hostname, hello.addresses, hello.machine});
}

void Fleet::handle(const LeftoversSeen& event, TimePoint now) {
  if (!leftovers_) return;
  std::vector<Leftover> left = event.left;
  forget_ended(left);
  std::erase_if(left, [this](const Leftover& each) { return is_named(each); });
  if (left.empty()) {
    leftovers_.reset();
    outcome_.news.emplace_back(LeftoversGone{});
    return;
  }
  const bool stay = event.killed && now - leftovers_->since > kLeftoverLimit + kUnkillableLimit;
  if (!stay || std::exchange(leftovers_->told, true)) return;
  std::erase_if(left, [this](const Leftover& each) {
    return !leftovers_->told_of.emplace(each.node, each.pid).second;
  });
  outcome_.news.emplace_back(LeftoversRemain{std::move(left)});
}

bool Fleet::is_named(const Leftover& left) const {
  return left_behind_.contains({left.node, left.pid}) ||
         std::ranges::any_of(named_, [&left](const auto& each) {
           return each.first == left.node.value_or(each.first) && each.second.contains(left.pid);
         });
}

// When a process has ended, another process may get its pid. So this function forgets the pids of processes
// that are not in `left` any more. But it keeps all pids that a living agent has reported, because `left` has
// only leftovers of agents that have ended.
void Fleet::forget_ended(const std::vector<Leftover>& left) {
  for (auto& [id, pids] : named_) {
    if (alive(id)) continue;
    std::erase_if(pids, [&left, node = id](std::int32_t pid) {
      return std::ranges::none_of(
          left, [&](const Leftover& each) { return each.pid == pid && each.node.value_or(node) == node; });
    });
  }
  std::erase_if(named_, [](const auto& each) { return each.second.empty(); });
  std::erase_if(left_behind_, [&left](const Process& process) {
    return std::ranges::none_of(
        left, [&](const Leftover& each) { return Process(each.node, each.pid) == process; });
  });
}

void Fleet::leave_leftovers_behind() {
  if (!leftovers_) return;
  left_behind_.merge(leftovers_->told_of);
  if (leftovers_->told) leftovers_.reset();
}

void Fleet::check_half_gone(TimePoint now) {
  while (!half_gone_.empty() && half_gone_.front().since + kHalfGoneLimit <= now) {
    const AgentId agent = half_gone_.front().agent;
    half_gone_.pop_front();
    Node* const node = find(agent);
    if (node == nullptr || !is_half_gone(*node)) continue;
    if (node->process) {
      kill_for(agent, *node, "closed its connection");
    } else {
      decide(CloseConnection{*node->connection}, "its agent has ended");
      lose(agent.node, now);
    }
  }
}

void Fleet::check_silence(TimePoint now) {
  while (!order_.empty() && silent_at(at(order_.begin()->second)) <= now) {
    const NodeId id = order_.begin()->second;
    const Node& node = at(id);
    const std::string how = fmt::format("its agent {} for {:g} s",
                                        node.presence == Presence::kComing ? "did not appear" : "was silent",
                                        in_seconds(limits_.silence));
    // The node counts as lost from the last sign of life of its agent, because failures after that may follow
    // from the loss.
    const TimePoint last_heard = std::max(node.last_heard, forgiven_);
    const bool had_joined = node.presence == Presence::kThere;
    FleetDecisions decisions = drop(id, last_heard, how, now);
    std::ranges::move(decisions, std::back_inserter(outcome_.decisions));
    outcome_.news.emplace_back(NodeLost{id, last_heard, how, AgentEnd::kOther, had_joined});
  }
}

void Fleet::check_leftovers(TimePoint now) {
  if (!leftovers_ || !leftovers_->look_at || *leftovers_->look_at > now) return;
  leftovers_->look_at.reset();
  if (releasing_ && process_count_ > 0) return;  // the end of the last agent's process sets look_at again
  leftovers_->look_at = now + (leftovers_->told ? kUnkillableCheckPeriod : kCheckPeriod);
  decide(LookForLeftovers{now - leftovers_->since > kLeftoverLimit}, "an agent is lost");
}

bool Fleet::listens_to(AgentId agent) const {
  const auto found = nodes_.find(agent.node);
  return found != nodes_.end() && found->second.incarnation == agent.incarnation &&
         found->second.presence != Presence::kAbsent;
}

Fleet::Node* Fleet::find(AgentId agent) {
  return listens_to(agent) ? &at(agent.node) : nullptr;
}

void Fleet::kill_for(AgentId agent, Node& node, std::string why, AgentEnd end) {
  node.killed_for = std::move(why);
  node.end = end;
  decide(KillAgent{agent}, "it " + node.killed_for);
}

void Fleet::lose(NodeId id, TimePoint now) {
  const Node& node = at(id);
  // Either the process of the agent has ended first, or the agent's connection. The node counts as lost from
  // this first end, because failures of other nodes after that moment may follow from the loss.
  const TimePoint lost_at = node.ends_since.value_or(now);
  NodeLost lost{id, lost_at, node.how, node.end, node.presence == Presence::kThere};
  forget(id, lost_at);
  expect_leftovers(now, now);
  outcome_.news.emplace_back(std::move(lost));
}

// If an agent never joined, its loss does not count towards exclusion, because its host may only be
// unreachable for a while.
void Fleet::forget(NodeId id, TimePoint lost_at) {
  Node& node = at(id);
  const bool had_joined = node.presence == Presence::kThere;
  if (had_joined) --there_count_;
  if (node.process) --process_count_;
  order_.erase({node.silent_since(), id});
  node = Node{.incarnation = node.incarnation, .last_heard = {}, .losses = std::move(node.losses)};
  absent_.insert(id);
  while (!half_gone_.empty() && find(half_gone_.front().agent) == nullptr) half_gone_.pop_front();
  if (releasing_ || !had_joined) return;
  node.losses.push_back(lost_at);
  if (node.losses.size() < 2) return;
  node.losses.erase(node.losses.begin(), node.losses.end() - 2);
  often_lost_.insert(id);
}

void Fleet::expect_leftovers(TimePoint now, TimePoint look_at) {
  leftovers_ = Leftovers{.since = now,
                         .look_at = look_at,
                         .told_of = leftovers_ ? std::move(leftovers_->told_of) : std::set<Process>()};
}

TimePoint Fleet::silent_at(const Node& node) const {
  return std::max(node.last_heard + (slept_ - node.slept), forgiven_) + limits_.silence;
}

bool Fleet::restored() {
  absent_.clear();
  often_lost_.clear();
  order_.clear();
  there_count_ = process_count_ = 0;
  for (const auto& [id, node] : nodes_) {
    const bool absent = node.presence == Presence::kAbsent;
    if (absent && (node.process || node.connection)) return false;
    if (absent) absent_.insert(id);
    if (node.presence == Presence::kThere) ++there_count_;
    if (node.process) ++process_count_;
    if (node.losses.size() >= 2) often_lost_.insert(id);
    if (is_listened_for(node)) order_.emplace(node.silent_since(), id);
  }
  return true;
}

std::vector<NodeId> Fleet::nodes() const {
  std::vector<NodeId> all;
  for (const auto& [id, node] : nodes_) all.push_back(id);
  return all;
}

bool Fleet::output_waits() const {
  return std::ranges::any_of(nodes_, [](const auto& each) { return each.second.output_waits; });
}

bool Fleet::excluded(NodeId node, TimePoint now) const {
  return is_excluded(at(node).losses, limits_.exclusion, now);
}

std::vector<NodeId> Fleet::excluded(TimePoint now) const {
  std::vector<NodeId> found;
  for (const NodeId node : often_lost_) {
    if (excluded(node, now)) found.push_back(node);
  }
  return found;
}

FleetDecisions Fleet::take_decisions() {
  return std::exchange(outcome_.decisions, {});
}

}  // namespace muster::launcher
