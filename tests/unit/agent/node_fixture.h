// For tests of Node: a node, a clock that the test moves, and the node's decisions.
//
// Keeps only the decisions of the last event. Each test has its own; one thread.
#pragma once

#include <csignal>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "agent/core/node/node.h"

namespace muster::agent {

using namespace std::chrono_literals;

class NodeTest : public testing::Test {
 protected:
  static wire::JobSpec job() {
    wire::JobSpec job;
    job.limits.grace = 3s;
    job.limits.controller_grace = 30s;
    job.limits.silence_limit = 10s;
    return job;
  }
  static wire::PrepareAttempt plan(std::int32_t count) {
    wire::PrepareAttempt plan;
    plan.first_rank = Rank(4);
    plan.local_world_size = count;
    return plan;
  }
  static StopRequested stop(std::uint64_t attempt, Duration grace) {
    return {Attempt(attempt), {SIGTERM, grace.count()}};
  }

  void on(const Event& event) { decided_ = node_.on(event, now_); }
  // Moves the clock; the alarm rings if it is due.
  void advance(Duration step) {
    now_ += step;
    decided_.clear();
    const auto deadline = node_.next_deadline();
    if (deadline && *deadline <= now_) on(TimePassed{});
  }
  // Attempt `attempt` with `count` running workers, whose pids are 100, 101, ...
  void run_attempt(std::uint64_t attempt, std::int32_t count) {
    on(Welcomed{job()});
    on(AttemptRequested{Attempt(attempt), plan(count)});
    on(AttemptOpened{});
    on(StartRequested{Attempt(attempt), {}});
    for (int i = 0; i < count; ++i) on(WorkerStarted{LocalRank(i), 100 + i});
  }
  template <class Wanted>
  std::vector<Wanted> decided() const {
    std::vector<Wanted> found;
    for (const Action& action : decided_) {
      if (const auto* wanted = std::get_if<Wanted>(&action)) found.push_back(*wanted);
    }
    return found;
  }
  template <class Message>
  std::vector<Message> sent() const {
    std::vector<Message> found;
    for (const Send& send : decided<Send>()) {
      if (const auto* wanted = std::get_if<Message>(&send.message)) found.push_back(*wanted);
    }
    return found;
  }
  // "pid:signal", in order.
  std::vector<std::string> signals() const {
    std::vector<std::string> found;
    for (const SignalWorker& signal : decided<SignalWorker>()) {
      found.push_back(std::to_string(signal.pid) + ":" + std::to_string(signal.signal));
    }
    return found;
  }

  TimePoint now_{1000s};
  Node node_{now_};
  Actions decided_;
};

}  // namespace muster::agent
