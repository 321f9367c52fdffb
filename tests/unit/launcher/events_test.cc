#include "launcher/core/view/events.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace muster::launcher {
namespace {

TEST(Events, AreOneLineOfJsonEach) {
  const std::string line = event_line({.event = "worker_exited",
                                       .rank = Rank(2),
                                       .node = NodeId(1),
                                       .text = "said\n\"no\"",
                                       .attempt = Attempt(3)},
                                      1763742345.125);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json.at("event"), "worker_exited");
  EXPECT_EQ(json.at("attempt"), 3);
  EXPECT_EQ(json.at("rank"), 2);
  EXPECT_EQ(json.at("node"), 1);
  EXPECT_EQ(json.at("text"), "said\n\"no\"");
  EXPECT_DOUBLE_EQ(json.at("time"), 1763742345.125);
}

TEST(Events, LeaveOutEmptyFields) {
  EXPECT_EQ(event_line({.event = "job_ended"}, 1.5), "{\"time\":1.5,\"event\":\"job_ended\"}\n");
}

TEST(Events, NameTheHostOfANodeThatHasOne) {
  EXPECT_EQ(event_line({.event = "node_lost", .node = NodeId(1), .host = "h2"}, 1.5),
            "{\"time\":1.5,\"event\":\"node_lost\",\"node\":1,\"host\":\"h2\"}\n");
}

TEST(Events, SayHowManyWorkersOfANodeHaveStarted) {
  EXPECT_EQ(
      event_line({.event = "workers_started", .rank = Rank(2), .node = NodeId(1), .worker_count = 2}, 1.5),
      "{\"time\":1.5,\"event\":\"workers_started\",\"rank\":2,\"node\":1,\"workers\":2}\n");
}

TEST(Events, HaveTheLaunchersClockInATracedJob) {
  EXPECT_EQ(event_line({.event = "job_ended"}, 1.5, TimePoint(std::chrono::nanoseconds(77))),
            "{\"time\":1.5,\"event\":\"job_ended\",\"monotonic_ns\":77}\n");
  EXPECT_EQ(clock_line(NodeId(1), "h2", {.round_trip_ns = 3, .offset_ns = -4, .at_ns = 5}, 1.5),
            "{\"time\":1.5,\"event\":\"clock\",\"node\":1,\"host\":\"h2\",\"monotonic_ns\":5,"
            "\"ahead_ns\":-4,\"round_trip_ns\":3}\n");
}

TEST(Events, AreJsonWhateverTheWorkersWrote) {
  EXPECT_TRUE(nlohmann::json::accept(
      event_line({.event = "agent_notice", .text = "\xff\xfe", .attempt = Attempt(1)}, 1)));
}

}  // namespace
}  // namespace muster::launcher
