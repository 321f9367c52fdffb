#include "launcher/core/job/mpi_exchange.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcher/job_fixture.h"

namespace muster::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using wire::MpiVerb;

// "node0 #7: text", "node0 #7: no", "node1 fetch of 2 for node0 #7".
std::vector<std::string> shown(const std::vector<MpiExchange::Told>& all) {
  std::vector<std::string> lines;
  for (const auto& [node, told] : all) {
    lines.push_back(
        told.verb == MpiVerb::kFetch
            ? fmt::format("node{} fetch of {} for node{} #{}", node, told.wanted, told.node, told.number)
            : fmt::format("node{} #{}: {}", node, told.number, told.ok ? told.text.view() : "no"));
  }
  return lines;
}

class MpiExchangeTest : public testing::Test {
 protected:
  std::vector<std::string> says(int node, wire::MpiAsked asked) {
    return shown(exchange_.on(NodeId(node), asked, crew_));
  }
  std::vector<std::string> fences(int node, const std::string& key, std::uint64_t number,
                                  const std::string& text, int count = 2) {
    return says(node,
                {.verb = MpiVerb::kFence, .number = number, .key = key, .count = count, .text = bytes(text)});
  }
  std::vector<std::string> publishes(int node, std::uint64_t number, const std::string& text,
                                     bool once = false) {
    return says(
        node, {.verb = MpiVerb::kPublish, .number = number, .key = "port", .ok = once, .text = bytes(text)});
  }
  std::vector<std::string> looks_up(int node, std::uint64_t number, bool waits = true) {
    return says(node, {.verb = MpiVerb::kLookUp, .number = number, .key = "port", .ok = waits});
  }
  static wire::Bytes bytes(const std::string& text) { return wire::Bytes(text); }

  Crew crew_{{{NodeId(0), Rank(0), 2}, {NodeId(3), Rank(2), 1}}};
  MpiExchange exchange_;
};

TEST_F(MpiExchangeTest, AnswersAFenceWhenAllItsNodesHaveArrived) {
  EXPECT_THAT(fences(3, "all #1", 5, "b"), IsEmpty());
  EXPECT_THAT(fences(0, "all #1", 9, "a"), ElementsAre("node0 #9: ab", "node3 #5: ab"));
  EXPECT_THAT(fences(0, "all #1", 10, "c"), IsEmpty()) << "it is another fence";
}

// A server that brings more data in a second fence relies on the order of the parts.
TEST_F(MpiExchangeTest, PartsAreInTheOrderOfTheNodesForAnyOrderOfArrival) {
  Crew crew({{NodeId(7), Rank(0), 1}, {NodeId(2), Rank(1), 1}, {NodeId(5), Rank(2), 1}});
  const auto fence = [&](int node, const std::string& key) {
    return shown(exchange_.on(
        NodeId(node),
        {.verb = MpiVerb::kFence, .key = key, .count = 3, .text = bytes(fmt::format("[{}]", node))}, crew));
  };
  int order[] = {2, 5, 7};
  do {
    const std::string key = fmt::format("{}{}{}", order[0], order[1], order[2]);
    EXPECT_THAT(fence(order[0], key), IsEmpty());
    EXPECT_THAT(fence(order[1], key), IsEmpty());
    EXPECT_THAT(fence(order[2], key),
                ElementsAre("node2 #0: [2][5][7]", "node5 #0: [2][5][7]", "node7 #0: [2][5][7]"));
  } while (std::ranges::next_permutation(order).found);
}

TEST_F(MpiExchangeTest, AWithdrawnFenceEndsForAllNodesAndMayBeRetried) {
  Crew crew({{NodeId(0), Rank(0), 1}, {NodeId(3), Rank(1), 1}, {NodeId(5), Rank(2), 1}});
  const auto asks = [&](int node, MpiVerb verb, std::uint64_t number) {
    return shown(exchange_.on(
        NodeId(node), {.verb = verb, .number = number, .key = "all #1", .count = 3, .text = bytes("a")},
        crew));
  };
  EXPECT_THAT(asks(0, MpiVerb::kFence, 5), IsEmpty());
  EXPECT_THAT(asks(3, MpiVerb::kFence, 6), IsEmpty());
  EXPECT_THAT(asks(5, MpiVerb::kWithdraw, 7), ElementsAre("node5 #7: no")) << "the node has not arrived";
  EXPECT_THAT(asks(0, MpiVerb::kWithdraw, 4), ElementsAre("node0 #4: no")) << "that was another fence";
  EXPECT_THAT(asks(0, MpiVerb::kWithdraw, 5), ElementsAre("node0 #5: no", "node3 #6: no"));
  EXPECT_THAT(asks(3, MpiVerb::kWithdraw, 6), ElementsAre("node3 #6: no")) << "it is over";
  for (const int node : {5, 3}) EXPECT_THAT(asks(node, MpiVerb::kFence, 8), IsEmpty());
  EXPECT_THAT(asks(0, MpiVerb::kFence, 9), ElementsAre("node0 #9: aaa", "node3 #8: aaa", "node5 #8: aaa"));
  EXPECT_THAT(asks(0, MpiVerb::kWithdraw, 9), ElementsAre("node0 #9: no")) << "all have met";
}

TEST_F(MpiExchangeTest, FencesOfDifferentRanksDoNotMeet) {
  EXPECT_THAT(fences(0, "0 2 #1", 1, "a"), IsEmpty());
  EXPECT_THAT(fences(3, "all #1", 1, "b"), IsEmpty());
  EXPECT_THAT(fences(3, "0 2 #1", 2, "c"), ElementsAre("node0 #1: ac", "node3 #2: ac"));
  EXPECT_THAT(fences(0, "1 #1", 2, "d", 1), ElementsAre("node0 #2: d")) << "one node alone";
  EXPECT_THAT(fences(0, "9 #1", 3, "d", 1000), IsEmpty());
  EXPECT_THAT(fences(3, "9 #1", 3, "e", -7), ElementsAre("node0 #3: de", "node3 #3: de"))
      << "there are no more nodes";
}

TEST_F(MpiExchangeTest, RequestsARanksDataFromItsNode) {
  EXPECT_THAT(says(0, {.verb = MpiVerb::kFetch, .number = 4, .wanted = Rank(2)}),
              ElementsAre("node3 fetch of 2 for node0 #4"));
  EXPECT_THAT(
      says(3, {.verb = MpiVerb::kAnswer, .number = 4, .node = NodeId(0), .ok = true, .text = bytes("card")}),
      ElementsAre("node0 #4: card"));
  EXPECT_THAT(says(0, {.verb = MpiVerb::kFetch, .number = 5, .wanted = Rank(3)}),
              ElementsAre("node0 #5: no"));
  EXPECT_THAT(says(0, {.verb = MpiVerb::kAnswer, .number = 5, .node = NodeId(1), .ok = true}), IsEmpty())
      << "that node does not take part";
}

TEST_F(MpiExchangeTest, ANameIsWaitedForUntilItIsPublished) {
  EXPECT_THAT(looks_up(0, 1, false), ElementsAre("node0 #1: no"));
  EXPECT_THAT(looks_up(0, 2), IsEmpty());
  EXPECT_THAT(looks_up(3, 3), IsEmpty());
  EXPECT_THAT(publishes(3, 4, "here"), ElementsAre("node3 #4: ", "node0 #2: here", "node3 #3: here"));
  EXPECT_THAT(looks_up(0, 5), ElementsAre("node0 #5: here"));
  EXPECT_THAT(publishes(0, 6, "there"), ElementsAre("node0 #6: no")) << "it is taken";
  EXPECT_THAT(says(3, {.verb = MpiVerb::kUnpublish, .number = 7, .key = "port"}), ElementsAre("node3 #7: "));
  EXPECT_THAT(looks_up(0, 8, false), ElementsAre("node0 #8: no"));
}

TEST_F(MpiExchangeTest, ANameToBeReadOnceIsReadOnce) {
  EXPECT_THAT(publishes(0, 1, "first", true), ElementsAre("node0 #1: "));
  EXPECT_THAT(looks_up(3, 2), ElementsAre("node3 #2: first"));
  EXPECT_THAT(looks_up(3, 3), IsEmpty());
  EXPECT_THAT(looks_up(0, 4), IsEmpty());
  EXPECT_THAT(publishes(0, 5, "second", true), ElementsAre("node0 #5: ", "node3 #3: second"));
  EXPECT_THAT(publishes(0, 6, "third", true), ElementsAre("node0 #6: ", "node0 #4: third"));
  EXPECT_THAT(looks_up(0, 7, false), ElementsAre("node0 #7: no"));
}

TEST_F(MpiExchangeTest, HoldsALimitedAmount) {
  const std::string much(MpiExchange::kMostBytes / 2, 'x');
  EXPECT_THAT(publishes(0, 1, much), ElementsAre("node0 #1: "));
  EXPECT_THAT(fences(0, "all #1", 2, much), IsEmpty());
  EXPECT_THAT(fences(3, "all #1", 3, "y"), ElementsAre("node3 #3: no")) << "no room for it";
  says(0, {.verb = MpiVerb::kUnpublish, .number = 4, .key = "port"});
  EXPECT_THAT(fences(3, "all #1", 5, "y"), ElementsAre("node0 #2: no", "node3 #5: no"))
      << "a frame cannot be this long";
  EXPECT_THAT(publishes(0, 6, much), ElementsAre("node0 #6: "));
  EXPECT_THAT(fences(0, "all #2", 7, much), IsEmpty()) << "nothing is kept of the completed fence";
}

class MpiRelayTest : public JobTest {};

TEST_F(MpiRelayTest, RelaysRequestsOfMpiServersWithoutTheJournal) {
  run();
  int witnessed = 0;
  controller->set_witness([&](const Controller&, const Event&, TimePoint, const Decisions&) { ++witnessed; });
  const auto fence = [](const std::string& key) {
    return wire::MpiAsked{.verb = MpiVerb::kFence, .number = 1, .key = key, .count = 2};
  };
  said(0, fence("all #1"));
  EXPECT_TRUE(last.empty());
  said(1, fence("all #1"));
  ASSERT_EQ(last.size(), 2U);
  for (const Decision& each : last) {
    const auto* sent = std::get_if<Send>(&each.action);
    ASSERT_NE(sent, nullptr);
    EXPECT_EQ(sent->attempt, job.attempt());
    EXPECT_TRUE(std::get<wire::MpiTold>(sent->message).ok);
  }
  EXPECT_EQ(witnessed, 0);
  said(0, Attempt(9), fence("all #2"));
  said(1, fence("all #2"));
  EXPECT_TRUE(last.empty()) << "one fence was of another attempt";
}

}  // namespace
}  // namespace muster::launcher
