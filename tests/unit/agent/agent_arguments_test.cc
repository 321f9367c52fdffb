#include "agent/core/start/agent_arguments.h"

#include <gmock/gmock.h>

namespace muster::agent {
namespace {

TEST(ParseArguments, TakesAnInheritedSocket) {
  const auto arguments = parse_arguments({"--control-fd", "5", "--node", "3"});
  ASSERT_TRUE(arguments);
  EXPECT_EQ(arguments->control_fd, 5);
  EXPECT_EQ(arguments->node, NodeId(3));
}

TEST(ParseArguments, TakesAnAddress) {
  const auto arguments =
      parse_arguments({"--node", "0", "--connect", "[::1]:4711", "--identity", "j/agent/0"});
  ASSERT_TRUE(arguments);
  EXPECT_EQ(arguments->address, "::1");
  EXPECT_EQ(arguments->port, 4711);
  EXPECT_EQ(arguments->identity, "j/agent/0");
}

TEST(ParseArguments, NamesWhatIsWrong) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{}, "--node"},
      {{"--node", "-1", "--control-fd", "3"}, "--node"},
      {{"--node", "0"}, "--control-fd or --connect"},
      {{"--node", "0", "--control-fd"}, "--control-fd"},
      {{"--node", "0", "--control-fd", "x"}, "--control-fd"},
      {{"--node", "0", "--connect", "host", "--identity", "i"}, "--connect"},
      {{"--node", "0", "--connect", "host:70000", "--identity", "i"}, "--connect"},
      {{"--node", "0", "--connect", "host:7"}, "--identity"},
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
