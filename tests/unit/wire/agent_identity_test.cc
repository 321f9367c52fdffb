#include "common/wire/agent_identity.h"

#include <gtest/gtest.h>

namespace muster::wire {
namespace {

AgentId agent(std::int32_t node, std::uint32_t incarnation) {
  return {NodeId(node), Incarnation(incarnation)};
}

TEST(AgentIdentity, IsUnchangedByParsingWhateverTheRole) {
  for (const std::string role : {"default", "", "a/b", "/", "peer", "peer/0-1", "3/4"}) {
    const AgentIdentity identity{"job-1", role, agent(7, 4'000'000'000)};
    EXPECT_EQ(as_text(identity), "job-1/" + role + "/7/4000000000");
    EXPECT_EQ(parse_agent_identity(as_text(identity)), identity) << role;
  }
}

TEST(AgentIdentity, ATextThatNamesNoAgentIsRefused) {
  for (const std::string_view text :
       {"", "job", "job/role/3", "job/role/3/", "/role/3/1", "job/role/-1/1", "job/role/3/0", "job/role/03/1",
        "job/role/3/+1", "job/role/3/1 ", "job/role/3/4294967296", "job/role/x/1", "job/peer/0-1/1-1"})
    EXPECT_FALSE(parse_agent_identity(text)) << text;
}

TEST(PeerIdentity, IsTheSameForBothAgentsAndDifferentForEveryOtherPair) {
  const std::string name = peer_identity("j", agent(2, 5), agent(10, 1));
  EXPECT_EQ(name, "j/peer/2-10/5-1");
  EXPECT_EQ(peer_identity("j", agent(10, 1), agent(2, 5)), name);
  for (const std::string& other :
       {peer_identity("j", agent(2, 5), agent(11, 1)), peer_identity("j", agent(2, 6), agent(10, 1)),
        peer_identity("j", agent(2, 5), agent(10, 2)), peer_identity("k", agent(2, 5), agent(10, 1)),
        peer_identity("j", agent(2, 1), agent(10, 5))})
    EXPECT_NE(other, name);
}

}  // namespace
}  // namespace muster::wire
