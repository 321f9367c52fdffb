// A job whose events are given by hand, on two nodes of two workers; what it decided last can be asked for.
//
// Shared by the tests of the job's parts: running, recovery, hangs, preemption.
#pragma once

#include <algorithm>
#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/core/job/job.h"

namespace muster::launcher {

using namespace std::chrono_literals;
using testing::HasSubstr;

inline Plan two_nodes_of_two(std::int32_t max_restarts) {
  Plan plan;
  plan.nodes = {{NodeId(0), Rank(0), 2}, {NodeId(1), Rank(2), 2}};
  plan.job.max_restarts = max_restarts;
  plan.job.limits.grace = 10s;
  plan.job.limits.silence_limit = 2s;
  return plan;
}

class JobTest : public testing::Test {
 protected:
  explicit JobTest(std::int32_t max_restarts = 1) : JobTest(two_nodes_of_two(max_restarts)) {}
  explicit JobTest(const Plan& plan) : job(plan) {}

  void happen(Event event) { last = job.on(event, now); }
  // In steps, so that the agents of nodes 0 and 1 are heard and nobody oversleeps.
  void pass(Duration time) {
    for (const TimePoint end = now + time; now < end;) {
      now = std::min(end, now + 500ms);
      for (const int node : {0, 1}) job.on(AgentSaid{NodeId(node), Attempt(), wire::Pong{}}, now);
      happen(TimePassed{});
      if (!last.empty()) return;
    }
  }
  void said(int node, wire::ToLauncher message) {
    happen(AgentSaid{NodeId(node), job.attempt(), std::move(message)});
  }
  void greet(int node) { said(node, wire::Hello{}); }
  void begin() { happen(AttemptBegun{job.attempt().next(), std::nullopt}); }
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
  // Whatever was said to the user at the last event, a line each.
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
    happen(AgentEnded{NodeId(0), "left"});
    happen(AgentEnded{NodeId(1), "left"});
    happen(StraysEnded{});
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

  Job job;
  TimePoint now{1000s};
  Decisions last;
};

class JobWithoutRestarts : public JobTest {
 protected:
  JobWithoutRestarts() : JobTest(0) {}
};

}  // namespace muster::launcher
