#include "agent/core/start/agent_arguments.h"

#include <gmock/gmock.h>

#include "common/base/version.h"
#include "common/wire/frame.h"

namespace muster::agent {
namespace {

TEST(AgentText, SaysWhoStartsTheAgentAndWhichVersionItHas) {
  const auto version = text_to_print({"--version"});
  ASSERT_TRUE(version);
  EXPECT_EQ(*version,
            fmt::format("muster-agent (Muster) {}, protocol version {}\n", kVersion, wire::kVersion));
  const auto help = text_to_print({"--help"});
  ASSERT_TRUE(help);
  EXPECT_THAT(*help, testing::StartsWith(*version));
  EXPECT_THAT(*help, testing::HasSubstr("The program `launch` starts it"));
  EXPECT_FALSE(text_to_print({}));
  EXPECT_FALSE(text_to_print({"--control-fd", "5"}));
}

TEST(ParseArguments, TakesAnInheritedSocket) {
  const auto arguments = parse_arguments({"--control-fd", "5", "--node", "3"});
  ASSERT_TRUE(arguments);
  EXPECT_EQ(arguments->control_fd, 5);
  EXPECT_EQ(arguments->agent, (AgentId{NodeId(3), Incarnation(1)}));
  const auto second = parse_arguments({"--control-fd", "5", "--node", "3", "--incarnation", "2"});
  ASSERT_TRUE(second);
  EXPECT_EQ(second->agent, (AgentId{NodeId(3), Incarnation(2)}));
}

TEST(ParseArguments, TakesAddresses) {
  const auto arguments =
      parse_arguments({"--node", "0", "--connect", "[::1]:4711,10.0.0.7:80", "--identity", "j/agent/0/1"});
  ASSERT_TRUE(arguments);
  ASSERT_EQ(arguments->addresses.size(), 2U);
  EXPECT_EQ(arguments->addresses[0].address, "::1");
  EXPECT_EQ(arguments->addresses[0].port, 4711);
  EXPECT_EQ(arguments->addresses[1].address, "10.0.0.7");
  EXPECT_EQ(arguments->addresses[1].port, 80);
  EXPECT_EQ(arguments->identity, "j/agent/0/1");
  EXPECT_EQ(arguments->job, "j");
  EXPECT_FALSE(arguments->stdio);
}

TEST(ParseArguments, TakesStdinAndStdoutAlsoAsTheSecondChoice) {
  const auto only = parse_arguments({"--stdio", "--node", "2"});
  ASSERT_TRUE(only);
  EXPECT_TRUE(only->stdio);
  EXPECT_TRUE(only->addresses.empty());
  EXPECT_EQ(only->job, "");
  const auto named = parse_arguments({"--stdio", "--node", "2", "--identity", "j/agent/2/1"});
  ASSERT_TRUE(named);
  EXPECT_EQ(named->job, "j");
  const auto second =
      parse_arguments({"--connect", "10.0.0.7:80", "--or-stdio", "--node", "0", "--identity", "j/agent/0/1"});
  ASSERT_TRUE(second);
  EXPECT_TRUE(second->stdio);
  EXPECT_EQ(second->addresses.size(), 1U);
  EXPECT_FALSE(second->stdio_first);
  const auto first = parse_arguments(
      {"--connect", "10.0.0.7:80", "--stdio-first", "--node", "0", "--identity", "j/agent/0/1"});
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->stdio_first);
  EXPECT_FALSE(first->stdio);
  EXPECT_FALSE(first->stays);
  const auto stays = parse_arguments({"--stdio", "--stays", "--node", "0"});
  ASSERT_TRUE(stays);
  EXPECT_TRUE(stays->stays);
}

TEST(ParseArguments, TakesAnOrderToSweep) {
  const auto all = parse_arguments({"--sweep", "job", "--node", "3"});
  ASSERT_TRUE(all && all->sweep);
  EXPECT_EQ(all->sweep->job, "job");
  EXPECT_EQ(all->sweep->node, NodeId(3));
  EXPECT_FALSE(all->sweep->below);
  EXPECT_FALSE(all->sweep->kill);
  const auto older = parse_arguments({"--kill", "--sweep", "job", "--below", "2", "--node", "3"});
  ASSERT_TRUE(older && older->sweep);
  EXPECT_EQ(older->sweep->below, Incarnation(2));
  EXPECT_TRUE(older->sweep->kill);
}

TEST(ParseArguments, NamesTheWrongArgument) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{}, "--node"},
      {{"--node", "-1", "--control-fd", "3"}, "--node"},
      {{"--node", "0"}, "--control-fd, --connect and --stdio"},
      {{"--node", "0", "--stdio", "--control-fd", "3"}, "--control-fd, --connect and --stdio"},
      {{"--node", "0", "--control-fd", "3", "--or-stdio"}, "--or-stdio"},
      {{"--node", "0", "--stdio", "--stdio-first"}, "--stdio-first"},
      {{"--node", "0", "--connect", "10.0.0.1:7", "--identity", "j/r/0/1", "--stays"}, "--stays"},
      {{"--node", "0", "--stdio", "--identity", "j/agent/1/1"}, "expected JOB/ROLE/0/1"},
      {{"--node", "0", "--connect", "10.0.0.1:7,", "--identity", "j/r/0/1"}, "--connect"},
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
      {{"--sweep", "j"}, "--node"},
      {{"--sweep", "", "--node", "0"}, "--sweep"},
      {{"--sweep", "j", "--node", "0", "--below", "0"}, "--below"},
      {{"--sweep", "j", "--node", "0", "--stdio"}, "--stdio: not with --sweep"},
      {{"--stdio", "--node", "0", "--kill"}, "--kill: only with --sweep"},
  };
  for (const auto& [words, named] : cases) {
    const auto arguments = parse_arguments(words);
    ASSERT_FALSE(arguments) << named;
    EXPECT_THAT(arguments.error().message(), testing::HasSubstr(named));
  }
}

}  // namespace
}  // namespace muster::agent
