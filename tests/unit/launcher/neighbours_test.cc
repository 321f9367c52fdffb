// Tests which agents keep copies of each other's checkpoints in memory.
#include "launcher/core/job/neighbours.h"

#include <gmock/gmock.h>

namespace muster::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// A node with two ranks on each of these machines.
Neighbours on_machines(const std::vector<std::string>& machines) {
  std::vector<Neighbours::Member> members;
  for (std::size_t i = 0; i < machines.size(); ++i) {
    const auto node = static_cast<std::int32_t>(i);
    members.push_back({{NodeId(node), Rank(2 * node), 2},
                       {machines[i], {"eth0 10.77.0." + std::to_string(machines[i][0]) + "/24"}, machines[i]},
                       machines[i]});
  }
  return {members, ""};
}

std::map<NodeId, std::vector<wire::Neighbour>> prepared(Neighbours neighbours,
                                                        const std::map<int, std::vector<Rank>>& held,
                                                        int node_count) {
  for (int node = 0; node < node_count; ++node) {
    const auto found = held.find(node);
    neighbours.prepared(NodeId(node),
                        {.store_port = 0,
                         .neighbour_port = 4000 + node,
                         .held_ranks = found == held.end() ? std::vector<Rank>() : found->second});
  }
  return neighbours.told_to_each(
      [](NodeId node) { return Incarnation(10 + static_cast<unsigned>(node.value())); });
}

// For each node, the node whose copies it keeps.
std::vector<int> kept(const std::map<NodeId, std::vector<wire::Neighbour>>& told) {
  std::vector<int> all;
  for (const auto& [node, neighbours] : told)
    for (const wire::Neighbour& each : neighbours)
      if (each.kept_count > 0) all.push_back(each.node.value());
  return all;
}

TEST(Neighbours, OneNodeHasNone) {
  EXPECT_THAT(prepared(on_machines({"a"}), {}, 1), IsEmpty());
}

TEST(Neighbours, TwoNodesKeepEachOthersCopiesOverOneConnection) {
  const Neighbours two = on_machines({"a", "b"});
  EXPECT_EQ(two.address_of(NodeId(1)), "10.77.0.98");
  const auto told = prepared(two, {}, 2);
  ASSERT_THAT(told.at(NodeId(0)), SizeIs(1));
  ASSERT_THAT(told.at(NodeId(1)), SizeIs(1));
  const wire::Neighbour& called = told.at(NodeId(0))[0];
  EXPECT_EQ(called.node, NodeId(1));
  EXPECT_EQ(called.incarnation, Incarnation(11));
  EXPECT_EQ(called.address, "10.77.0.98");
  EXPECT_EQ(called.port, 4001);
  EXPECT_EQ(called.first_rank, Rank(2));
  EXPECT_EQ(called.kept_count, 2);
  EXPECT_FALSE(called.has_ours);
  EXPECT_EQ(called.key, "") << "decisions are part of the journal";
  const wire::Neighbour& caller = told.at(NodeId(1))[0];
  EXPECT_EQ(caller.port, 0);
  EXPECT_EQ(caller.kept_count, 2);
}

TEST(Neighbours, AnotherMachineKeepsTheCopiesIfThereIsOne) {
  EXPECT_THAT(kept(prepared(on_machines({"a", "a", "a"}), {}, 3)), ElementsAre(2, 0, 1));
  EXPECT_EQ(on_machines({"a", "a", "a"}).address_of(NodeId(1)), "127.0.0.1");
  EXPECT_THAT(kept(prepared(on_machines({"a", "a", "b", "b"}), {}, 4)), ElementsAre(3, 2, 0, 1));
  EXPECT_THAT(kept(prepared(on_machines({"a", "b", "b", "c", "c", "a"}), {}, 6)),
              ElementsAre(5, 0, 3, 1, 2, 4));
}

TEST(Neighbours, ANodeWithoutItsRanksDataLearnsWhichNodeHasIt) {
  // Node 2 has a new agent; node 0 kept its copies, and node 3 also has data of rank 5.
  const auto told = prepared(on_machines({"a", "b", "c", "d", "e"}),
                             {{0, {Rank(0), Rank(1), Rank(4), Rank(5)}},
                              {1, {Rank(2), Rank(3)}},
                              {3, {Rank(5), Rank(6), Rank(7)}},
                              {4, {Rank(8), Rank(9)}}},
                             5);
  std::map<int, std::pair<bool, bool>> of_2;  // by node: has our data; we connect to it
  for (const wire::Neighbour& each : told.at(NodeId(2)))
    of_2[each.node.value()] = {each.has_ours, each.port != 0};
  EXPECT_THAT(of_2,
              ElementsAre(testing::Pair(0, std::pair(true, true)), testing::Pair(1, std::pair(false, false)),
                          testing::Pair(3, std::pair(true, true))));
  for (const int node : {0, 1, 3, 4})
    for (const wire::Neighbour& each : told.at(NodeId(node))) EXPECT_FALSE(each.has_ours) << node;
}

TEST(Neighbours, NobodyConnectsToAnAgentThatDoesNotListen) {
  Neighbours two = on_machines({"a", "b"});
  two.prepared(NodeId(0), {.store_port = 0, .neighbour_port = 4000});
  EXPECT_THAT(two.told_to_each([](NodeId) { return Incarnation(1); }), IsEmpty());
}

}  // namespace
}  // namespace muster::launcher
