#include "launcher/core/job/placement.h"

#include <gtest/gtest.h>

#include "launcher/core/fleet/exclusion.h"

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using Agent = NodeStatus::Agent;

constexpr Size kFixedTwo{.min_nodes = 2, .max_nodes = 2, .workers_per_node = 2};
constexpr Size kOneToThree{.min_nodes = 1, .max_nodes = 3, .workers_per_node = 2};

constexpr NodeStatus kMember{.node = {}, .agent = Agent::kThere, .member = true, .excluded = false};
constexpr NodeStatus kSpare{.node = {}, .agent = Agent::kThere, .member = false, .excluded = false};
constexpr NodeStatus kComing{.node = {}, .agent = Agent::kComing, .member = true, .excluded = false};
constexpr NodeStatus kAbsent{.node = {}, .agent = Agent::kAbsent, .member = true, .excluded = false};
constexpr NodeStatus kBadMember{.node = {}, .agent = Agent::kThere, .member = true, .excluded = true};
constexpr NodeStatus kBadAbsent{.node = {}, .agent = Agent::kAbsent, .member = true, .excluded = true};

// "node:first_rank ...", or "wait for node ...".
std::string text_of(const Placement& placement) {
  std::string text = placement.members.empty() ? "wait for" : "";
  for (const NodePlan& each : placement.members)
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", each.node, each.first_rank);
  if (placement.members.empty()) {
    for (const NodeId node : placement.needed) text += fmt::format(" {}", node);
  }
  return text;
}

std::vector<NodeStatus> numbered(std::vector<NodeStatus> nodes) {
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].node = NodeId(static_cast<std::int32_t>(i));
  return nodes;
}
std::string first(const Size& size, const std::vector<NodeStatus>& nodes) {
  return text_of(place(size, numbered(nodes), true));
}
std::string again(const Size& size, const std::vector<NodeStatus>& nodes) {
  return text_of(place(size, numbered(nodes), false));
}

TEST(Placement, WaitsForAllNodesAtFirstWhoeverComesEarlier) {
  EXPECT_EQ(first(kFixedTwo, {kComing, kMember, kSpare}), "wait for 0 1");
  EXPECT_EQ(first(kFixedTwo, {kMember, kMember, kComing}), "0:0 1:2") << "spares are not waited for";
  EXPECT_EQ(first(kOneToThree, {kMember, kComing, kComing}), "wait for 0 1 2");
}

TEST(Placement, TakesWhoIsLeftWhenANodeIsLostBeforeTheFirstAttempt) {
  EXPECT_EQ(first(kOneToThree, {kMember, kAbsent, kMember}), "0:0 2:2");
  EXPECT_EQ(first(kFixedTwo, {kAbsent, kMember, kSpare}), "1:0 2:2");
}

TEST(Placement, PutsASpareInTheLostNodesPlaceAtOnce) {
  EXPECT_EQ(again(kFixedTwo, {kMember, kComing, kSpare}), "0:0 2:2");
  EXPECT_EQ(again(kFixedTwo, {kComing, kMember, kSpare}), "1:0 2:2") << "ranks follow the nodes' numbers";
}

TEST(Placement, KeepsItsMembersWhileTheyLive) {
  EXPECT_EQ(again(kFixedTwo, {kSpare, kMember, kMember}), "1:0 2:2") << "node 0 is back, as a spare";
}

TEST(Placement, WaitsAtAFixedSizeUntilAllAreThere) {
  EXPECT_EQ(again(kFixedTwo, {kMember, kComing}), "wait for 0 1");
  EXPECT_EQ(again(kFixedTwo, {kMember, kMember}), "0:0 1:2");
}

TEST(Placement, GoesOnWithFewerAndGrowsAgain) {
  EXPECT_EQ(again(kOneToThree, {kMember, kComing, kMember}), "0:0 2:2");
  EXPECT_EQ(again(kOneToThree, {kMember, kSpare, kMember}), "0:0 1:2 2:4");
  EXPECT_EQ(again(kOneToThree, {kComing, kComing, kComing}), "wait for 0") << "not below its minimum";
}

TEST(Placement, LeavesOutABadNodeIfItCanDoWithout) {
  EXPECT_EQ(again(kFixedTwo, {kMember, kBadMember, kSpare}), "0:0 2:2");
  EXPECT_EQ(again(kOneToThree, {kMember, kBadMember, kMember}), "0:0 2:2");
  EXPECT_EQ(again(kFixedTwo, {kMember, kBadMember}), "0:0 1:2") << "it cannot do without";
  EXPECT_EQ(again(kFixedTwo, {kMember, kBadMember, kAbsent}), "0:0 1:2") << "nobody else comes";
  EXPECT_EQ(again(kFixedTwo, {kMember, kBadAbsent, kComing}), "wait for 0 2");
}

TEST(Placement, SaysWhyItIsSmaller) {
  EXPECT_EQ(place(kOneToThree, numbered({kMember, kComing, kMember}), false).reason,
            "2 of 3 nodes are there");
}

TEST(Exclusion, IsOfANodeThatWasLostTwiceAndEnds) {
  constexpr ExclusionLimits kLimits{.window = 3600s, .exclusion = 600s};
  const TimePoint start{10000s};
  EXPECT_FALSE(is_excluded({start}, kLimits, start));
  EXPECT_TRUE(is_excluded({start, start + 3600s}, kLimits, start + 3600s));
  EXPECT_FALSE(is_excluded({start, start + 3601s}, kLimits, start + 3601s)) << "the first is too long ago";
  EXPECT_TRUE(is_excluded({start, start + 10s}, kLimits, start + 609s));
  EXPECT_FALSE(is_excluded({start, start + 10s}, kLimits, start + 610s)) << "not for ever";
  EXPECT_FALSE(is_excluded({start, start}, {.window = 3600s, .exclusion = 0s}, start));
}

}  // namespace
}  // namespace muster::launcher
