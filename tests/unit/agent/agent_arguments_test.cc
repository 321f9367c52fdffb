#include "agent/core/start/agent_arguments.h"

#include <gmock/gmock.h>

namespace muster::agent {
namespace {

TEST(ParseArguments, TakesAnInheritedSocket) {
  const auto arguments = parse_arguments({"--control-fd", "5", "--node", "3"});
  ASSERT_TRUE(arguments);
  EXPECT_EQ(arguments->control_fd, 5);
  EXPECT_EQ(arguments->agent, (AgentId{NodeId(3), Incarnation(1)}));
  const auto second = parse_arguments({"--control-fd", "5", "--node", "3", "--incarnation", "2"});
  ASSERT_TRUE(second);
  EXPECT_EQ(second->agent, (AgentId{NodeId(3), Incarnation(2)}));
}

TEST(ParseArguments, TakesAnAddress) {
  const auto arguments =
      parse_arguments({"--node", "0", "--connect", "[::1]:4711", "--identity", "j/agent/0/1"});
  ASSERT_TRUE(arguments);
  EXPECT_EQ(arguments->address, "::1");
  EXPECT_EQ(arguments->port, 4711);
  EXPECT_EQ(arguments->identity, "j/agent/0/1");
}

TEST(ParseArguments, NamesWhatIsWrong) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{}, "--node"},
      {{"--node", "-1", "--control-fd", "3"}, "--node"},
      {{"--node", "0"}, "--control-fd or --connect"},
      {{"--node", "0", "--control-fd"}, "--control-fd"},
      {{"--node", "0", "--control-fd", "x"}, "--control-fd"},
      {{"--node", "0", "--connect", "host", "--identity", "j/r/0/1"}, "--connect"},
      {{"--node", "0", "--connect", "host:70000", "--identity", "j/r/0/1"}, "--connect"},
      {{"--node", "0", "--connect", "host:7"}, "--identity"},
      {{"--node", "0", "--connect", "host:7", "--identity", "j/r/0"}, "expected JOB/ROLE/0/1"},
      {{"--node", "0", "--connect", "host:7", "--identity", "j/r/1/1"}, "expected JOB/ROLE/0/1"},
      {{"--node", "0", "--incarnation", "2", "--connect", "host:7", "--identity", "j/r/0/1"},
       "expected JOB/ROLE/0/2"},
      {{"--node", "0", "--incarnation", "0", "--control-fd", "3"}, "--incarnation"},
      {{"--key", "00"}, "--key"},
  };
  for (const auto& [words, named] : cases) {
    const auto arguments = parse_arguments(words);
    ASSERT_FALSE(arguments) << named;
    EXPECT_THAT(arguments.error().message(), testing::HasSubstr(named));
  }
}

}  // namespace
}  // namespace muster::agent
