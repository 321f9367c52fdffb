// A controller with a job on two nodes with two workers each. Tests give it events by hand, and query its
// last decisions.
//
// Agents connect as soon as they are started. The recorded decisions leave out connections and looks for
// leftovers (fleet_test.cc tests those). Shared by the tests of the job's parts: running, recovery, hangs,
// preemption.
#pragma once

#include <algorithm>
#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <optional>

#include "launcher/core/controller.h"

namespace muster::launcher {

using namespace std::chrono_literals;
using testing::HasSubstr;

inline Plan two_nodes_of_two(std::int32_t max_restarts) {
  Plan plan;
  plan.nodes = {{NodeId(0), Rank(0), 2}, {NodeId(1), Rank(2), 2}};
  plan.job.max_restarts = max_restarts;
  plan.job.checkpoint_directory = "/checkpoints";
  plan.job.limits.grace = 10s;
  plan.job.limits.silence_limit = 2s;
  return plan;
}

inline Plan two_nodes_with(std::int32_t min_nodes, std::int32_t spare_nodes, std::int32_t max_restarts = 5) {
  Plan plan = two_nodes_of_two(max_restarts);
  if (min_nodes < 2) plan.min_nodes = min_nodes;
  plan.spare_nodes = spare_nodes;
  return plan;
}

class JobTest : public testing::Test {
 protected:
  explicit JobTest(std::int32_t max_restarts = 1) : JobTest(two_nodes_of_two(max_restarts)) {}
  explicit JobTest(const Plan& plan) { anew(plan); }
  void anew(const Plan& plan) {
    controller.emplace(plan, "");
    agents.clear();
  }

  void happen(Event event) {
    if (auto* begun = std::get_if<AttemptBegun>(&event)) begun->question = question;
    if (auto* denied = std::get_if<AttemptDenied>(&event)) denied->question = question;
    if (auto* found = std::get_if<CheckpointFound>(&event)) found->question = question;
    last = controller->on(event, now);
    for (const Decision& decision : last) {
      if (const auto* begin = std::get_if<BeginAttempt>(&decision.action)) question = begin->question;
      if (const auto* look = std::get_if<LookForCheckpoint>(&decision.action)) question = look->question;
      const auto* start = std::get_if<StartAgent>(&decision.action);
      if (start == nullptr) continue;
      agents[start->agent.node.value()] = start->agent;
      controller->on(AgentConnected{start->agent, connection_of(start->agent)}, now);
    }
    std::erase_if(last, [](const Decision& decision) {
      return std::holds_alternative<LookForLeftovers>(decision.action) ||
             std::holds_alternative<CloseConnection>(decision.action);
    });
  }
  AgentId agent(int node) const {
    return agents.contains(node) ? agents.at(node) : AgentId{NodeId(node), {}};
  }
  // One connection for each agent.
  static ConnectionId connection_of(AgentId agent) {
    return ConnectionId(agent.incarnation.value() * 100'000ULL +
                        static_cast<std::uint64_t>(agent.node.value()));
  }
  // The process ends first; then all that the agent had sent has been read.
  void end_agent(int node, const std::string& how) {
    const AgentId ended = agent(node);
    happen(ProcessEnded{ended, how});
    happen(ConnectionClosed{ended, connection_of(ended)});
  }
  // Leftovers of lost agents have survived a kill.
  void leftovers_remain(std::vector<Leftover> left) {
    pass(3500ms);
    happen(LeftoversSeen{std::move(left), true});
  }
  std::optional<TimePoint> next_deadline() const { return controller->next_deadline(); }
  // Passes time in steps, so that the agents of nodes 0 and 1 are heard, and no deadline is noticed late.
  void pass(Duration time) {
    for (const TimePoint end = now + time; now < end;) {
      now = std::min(end, now + 500ms);
      for (const int node : {0, 1}) controller->on(AgentSaid{agent(node), Attempt(), wire::Pong{}}, now);
      happen(TimePassed{});
      if (!last.empty()) return;
    }
  }
  void said(int node, wire::ToLauncher message) { said(node, job.attempt(), std::move(message)); }
  void said(int node, Attempt attempt, wire::ToLauncher message) {
    happen(AgentSaid{agent(node), attempt, std::move(message)});
  }
  void greet(int node, std::string host = "", std::vector<std::string> addresses = {},
             std::string machine = "") {
    wire::Hello hello;
    hello.machine = std::move(machine);
    hello.hostname = std::move(host);
    hello.addresses = std::move(addresses);
    hello.node = NodeId(node);
    hello.incarnation = agent(node).incarnation;
    said(node, hello);
  }
  // Without a checkpoint directory the attempt begins by itself.
  void begin() {
    if (job.phase() == Phase::kBeginning) happen(AttemptBegun{job.attempt().next(), std::nullopt});
  }
  void gather() {
    happen(Began{});
    greet(0);
    greet(1);
  }
  void prepare() {
    gather();
    begin();
  }
  void start_workers() {
    said(0, wire::AttemptPrepared{4711});
    said(1, wire::AttemptPrepared{});
  }
  void run() {
    prepare();
    start_workers();
  }
  static wire::WorkerExited exited(int rank, int code, int signal = 0, bool after_stop = false) {
    wire::WorkerExited message;
    message.rank = Rank(rank);
    message.exit_code = code;
    message.signal = signal;
    message.after_stop = after_stop;
    return message;
  }
  void worker_exits(int rank, int code, int signal = 0, bool after_stop = false, TimePoint at = {}) {
    wire::WorkerExited message = exited(rank, code, signal, after_stop);
    message.at_ns = std::chrono::nanoseconds((at == TimePoint() ? now : at).time_since_epoch()).count();
    said(rank / 2, message);
  }
  void reported(int rank, const char* kind, std::int64_t step = 0, const char* text = "") {
    said(rank / 2, wire::WorkerReported{Rank(rank), *wire::word_named<wire::ReportKind>(kind), step, text});
  }
  // The messages to the user at the last event, one per line.
  std::string told() const {
    std::string text;
    for (const Tell& tell : decided<Tell>()) text += tell.text + "\n";
    return text;
  }
  void empty(int node) { said(node, wire::WorkersGone{}); }
  void empty_all() {
    empty(0);
    empty(1);
  }
  void agents_leave() {
    end_agent(0, "left");
    end_agent(1, "left");
    happen(LeftoversSeen{});
  }
  template <class Action>
  std::vector<Action> decided() const {
    std::vector<Action> found;
    for (const Decision& decision : last) {
      if (const auto* action = std::get_if<Action>(&decision.action)) found.push_back(*action);
    }
    return found;
  }
  template <class Message>
  std::vector<std::pair<int, Message>> sent() const {
    std::vector<std::pair<int, Message>> found;
    for (const Send& send : decided<Send>()) {
      if (const auto* message = std::get_if<Message>(&send.message))
        found.emplace_back(send.node.value(), *message);
    }
    return found;
  }

  std::optional<Controller> controller;
  const Job& job = controller->job();
  std::map<int, AgentId> agents;  // the newest of each node
  Question question;              // the newest
  TimePoint now{1000s};
  Decisions last;
};

class JobWithoutRestarts : public JobTest {
 protected:
  JobWithoutRestarts() : JobTest(0) {}
};

}  // namespace muster::launcher
