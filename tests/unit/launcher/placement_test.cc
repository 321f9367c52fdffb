#include "launcher/core/job/placement.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

#include "launcher/core/fleet/fleet.h"

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using Agent = NodeStatus::Agent;

const JobSize kFixedTwo{.min_nodes = 2, .places = {2, 2}};
const JobSize kOneToThree{.min_nodes = 1, .places = {2, 2, 2}};

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
std::string first(const JobSize& size, const std::vector<NodeStatus>& nodes) {
  return text_of(place(size, numbered(nodes), true));
}
std::string again(const JobSize& size, const std::vector<NodeStatus>& nodes) {
  return text_of(place(size, numbered(nodes), false));
}

TEST(Placement, WaitsForAllNodesAtFirstInAnyOrderOfArrival) {
  EXPECT_EQ(first(kFixedTwo, {kComing, kMember, kSpare}), "wait for 0 1");
  EXPECT_EQ(first(kFixedTwo, {kMember, kMember, kComing}), "0:0 1:2") << "the job does not wait for spares";
  EXPECT_EQ(first(kOneToThree, {kMember, kComing, kComing}), "wait for 0 1 2");
}

TEST(Placement, TakesTheOtherNodesWhenOneIsLostBeforeTheFirstAttempt) {
  EXPECT_EQ(first(kOneToThree, {kMember, kAbsent, kMember}), "0:0 2:2");
  EXPECT_EQ(first(kFixedTwo, {kAbsent, kMember, kSpare}), "1:0 2:2");
}

TEST(Placement, PutsASpareInTheLostNodesPlaceAtOnce) {
  EXPECT_EQ(again(kFixedTwo, {kMember, kComing, kSpare}), "0:0 2:2");
  EXPECT_EQ(again(kFixedTwo, {kComing, kMember, kSpare}), "1:0 2:2") << "ranks follow the nodes' numbers";
}

TEST(Placement, KeepsLivingMembers) {
  EXPECT_EQ(again(kFixedTwo, {kSpare, kMember, kMember}), "1:0 2:2") << "node 0 is back, as a spare";
}

TEST(Placement, WaitsAtAFixedSizeUntilAllAreThere) {
  EXPECT_EQ(again(kFixedTwo, {kMember, kComing}), "wait for 0 1");
  EXPECT_EQ(again(kFixedTwo, {kMember, kMember}), "0:0 1:2");
}

TEST(Placement, ContinuesWithFewerNodesAndGrowsAgain) {
  EXPECT_EQ(again(kOneToThree, {kMember, kComing, kMember}), "0:0 2:2");
  EXPECT_EQ(again(kOneToThree, {kMember, kSpare, kMember}), "0:0 1:2 2:4");
  EXPECT_EQ(again(kOneToThree, {kComing, kComing, kComing}), "wait for 0") << "not below its minimum";
}

TEST(Placement, ExcludesABadNodeIfItCanDoWithoutIt) {
  EXPECT_EQ(again(kFixedTwo, {kMember, kBadMember, kSpare}), "0:0 2:2");
  EXPECT_EQ(again(kOneToThree, {kMember, kBadMember, kMember}), "0:0 2:2");
  EXPECT_EQ(again(kFixedTwo, {kMember, kBadMember}), "0:0 1:2") << "the job cannot do without it";
  EXPECT_EQ(again(kFixedTwo, {kMember, kBadMember, kAbsent}), "0:0 1:2") << "no other node joins";
  EXPECT_EQ(again(kFixedTwo, {kMember, kBadAbsent, kComing}), "wait for 0 2");
}

// Nodes 0 to 2 have 4, 2 and 1 workers; the other nodes are spares.
const JobSize kMixed{.min_nodes = 3, .places = {4, 2, 1}};
const JobSize kMixedElastic{.min_nodes = 1, .places = {4, 2, 1}};
NodeStatus with_room(NodeStatus status, std::int32_t room) {
  status.room = room;
  return status;
}
// "node:workers@first_rank ...", or "wait for node ...".
std::string mixed(const JobSize& size, std::vector<NodeStatus> nodes, bool patient = false) {
  const Placement placement = place(size, numbered(std::move(nodes)), patient);
  if (placement.members.empty()) return text_of(placement);
  std::string text;
  for (const NodePlan& each : placement.members) {
    text += fmt::format("{}{}:{}@{}", text.empty() ? "" : " ", each.node, each.worker_count, each.first_rank);
  }
  return text;
}

TEST(MixedPlacement, GivesEachNodeItsOwnNumberOfWorkers) {
  EXPECT_EQ(mixed(kMixed, {with_room(kMember, 4), with_room(kMember, 2), with_room(kMember, 1)}, true),
            "0:4@0 1:2@4 2:1@6");
}

TEST(MixedPlacement, PutsASpareInAPlaceThatItHasRoomFor) {
  const auto four = with_room(kMember, 4);
  const auto two = with_room(kMember, 2);
  const auto one = with_room(kMember, 1);
  const auto gone_four = with_room(kAbsent, 4);
  const auto gone_two = with_room(kAbsent, 2);
  const auto gone_one = with_room(kAbsent, 1);
  EXPECT_EQ(mixed(kMixed, {four, gone_two, one, with_room(kSpare, 2)}), "0:4@0 2:1@4 3:2@5");
  EXPECT_EQ(mixed(kMixed, {four, two, gone_one, with_room(kSpare, 8)}), "0:4@0 1:2@4 3:1@6")
      << "it runs as many workers as the node that it replaces";
  EXPECT_EQ(mixed(kMixed, {gone_four, two, one, with_room(kSpare, 2)}), "wait for 1 2 0") << "too small";
  EXPECT_EQ(mixed(kMixed, {gone_four, two, one, with_room(kSpare, 2), with_room(kSpare, 5)}),
            "1:2@0 2:1@2 4:4@3");
  EXPECT_EQ(mixed(kMixed, {gone_four, gone_two, one, with_room(kSpare, 4), with_room(kSpare, 2)}),
            "2:1@0 3:4@1 4:2@5");
  EXPECT_EQ(mixed(kMixed, {gone_four, gone_two, one, with_room(kSpare, 4), with_room(kSpare, 1)}),
            "wait for 2 3 0")
      << "two nodes with room for one cannot both take part";
}

TEST(MixedPlacement, ShrinksToTheSumOfTheMembersNumbers) {
  EXPECT_EQ(mixed(kMixedElastic, {with_room(kAbsent, 4), with_room(kMember, 2), with_room(kMember, 1)}),
            "1:2@0 2:1@2");
  EXPECT_EQ(mixed(kMixedElastic, {with_room(kAbsent, 4), with_room(kMember, 2), with_room(kMember, 1),
                                  with_room(kSpare, 3)}),
            "1:2@0 2:1@2")
      << "the spare has no free place with fewer than four workers";
  EXPECT_EQ(mixed(kMixedElastic, {with_room(kAbsent, 4), with_room(kAbsent, 2), with_room(kMember, 1),
                                  with_room(kSpare, 3)}),
            "2:1@0 3:2@1");
}

// For any set of nodes, the attempt has as many as can be seated, each in a place that it has room for.
// Compares with all ways to seat them.
TEST(MixedPlacement, SeatsAsManyAsCanBeSeated) {
  const std::vector<std::int32_t> places{4, 2, 2, 1};
  const JobSize size{.min_nodes = 1, .places = places};
  for (int there = 1; there < 1 << 7; ++there) {
    const std::vector<std::int32_t> rooms{4, 2, 2, 1, 1, 2, 5};
    std::vector<NodeStatus> nodes;
    std::vector<std::int32_t> present;
    for (std::size_t i = 0; i < rooms.size(); ++i) {
      const bool is_there = (there >> i & 1) != 0;
      nodes.push_back(with_room(is_there ? kMember : kAbsent, rooms[i]));
      if (is_there) present.push_back(rooms[i]);
    }
    std::size_t most = 0;
    std::vector<std::int32_t> order = places;
    std::ranges::sort(order);
    do {  // each place takes the smallest node with enough room
      std::multiset<std::int32_t> free(present.begin(), present.end());
      std::size_t seated = 0;
      for (const std::int32_t workers : order) {
        const auto node = free.lower_bound(workers);
        if (node == free.end()) continue;
        free.erase(node);
        ++seated;
      }
      most = std::max(most, seated);
    } while (std::ranges::next_permutation(order).found);
    const Placement placement = place(size, numbered(nodes), false);
    EXPECT_EQ(placement.members.size(), most) << there;
    std::multiset<std::int32_t> used;
    for (const NodePlan& each : placement.members) {
      EXPECT_LE(each.worker_count, rooms.at(static_cast<std::size_t>(each.node.value()))) << there;
      used.insert(each.worker_count);
    }
    const std::multiset<std::int32_t> all(places.begin(), places.end());
    EXPECT_TRUE(std::ranges::includes(all, used)) << there;
  }
}

TEST(Placement, StartsWithTheNodesThatAreThereWhenTheWaitIsOver) {
  EXPECT_EQ(again(kFixedTwo, {kComing, kSpare, kSpare}), "1:0 2:2");
  EXPECT_EQ(again(kOneToThree, {kSpare, kComing, kSpare}), "0:0 2:2");
}

TEST(Placement, SaysWhyItIsSmaller) {
  EXPECT_EQ(place(kOneToThree, numbered({kMember, kComing, kMember}), false).reason,
            "2 of 3 nodes are there");
}

TEST(Exclusion, AppliesToANodeThatWasLostTwiceAndEnds) {
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
