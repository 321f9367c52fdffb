#include "launcher/core/view/events.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace muster::launcher {
namespace {

TEST(Events, AreOneLineOfJsonEach) {
  const std::string line =
      event_line({"worker_exited", Rank(2), NodeId(1), "said\n\"no\"", Attempt(3)}, 1763742345.125);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json.at("event"), "worker_exited");
  EXPECT_EQ(json.at("attempt"), 3);
  EXPECT_EQ(json.at("rank"), 2);
  EXPECT_EQ(json.at("node"), 1);
  EXPECT_EQ(json.at("text"), "said\n\"no\"");
  EXPECT_DOUBLE_EQ(json.at("time"), 1763742345.125);
}

TEST(Events, LeaveOutWhatTheyDoNotSay) {
  EXPECT_EQ(event_line({"job_ended", {}, {}, ""}, 1.5), "{\"time\":1.5,\"event\":\"job_ended\"}\n");
}

TEST(Events, NameTheHostOfANodeThatHasOne) {
  const NodeNames names({{NodeId(1), "h2"}});
  EXPECT_EQ(event_line({"node_lost", {}, NodeId(1), ""}, 1.5, names),
            "{\"time\":1.5,\"event\":\"node_lost\",\"node\":1,\"host\":\"h2\"}\n");
}

TEST(Events, AreJsonWhateverTheWorkersWrote) {
  EXPECT_TRUE(nlohmann::json::accept(event_line({"agent_notice", {}, {}, "\xff\xfe", Attempt(1)}, 1)));
}

}  // namespace
}  // namespace muster::launcher
