#include "launcher/core/fleet/hello.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

using testing::StartsWith;

constexpr AgentId kSecondOfNode3{NodeId(3), Incarnation(2)};

wire::Hello hello_of(std::string version, AgentId agent = kSecondOfNode3) {
  wire::Hello hello;
  hello.node = agent.node;
  hello.version = std::move(version);
  hello.incarnation = agent.incarnation;
  return hello;
}

Status check(const wire::Hello& hello) {
  return check_hello(hello, {kSecondOfNode3, "1.10.0"});
}

TEST(Hello, AcceptsTheAgentThatWasStarted) {
  EXPECT_TRUE(check(hello_of("1.10.0")));
}

TEST(Hello, RefusesAnotherVersionAndNamesTheOlderSide) {
  const std::pair<const char*, const char*> cases[] = {
      {"1.9.2", "older than"},    {"0.99.0", "older than"},     {"1.10", "older than"},
      {"", "older than"},         {"1.10.1", "newer than"},     {"2.0.0", "newer than"},
      {"1.10.0.1", "newer than"}, {"1.10.0-rc1", "older than"}, {"1.10.0 ", "older than"},
  };
  for (const auto& [version, relation] : cases) {
    const Status refused = check(hello_of(version));
    ASSERT_FALSE(refused) << version;
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().message(), fmt::format("the agent is {} this launcher (Muster {}, not 1.10.0): "
                                                     "install the same Muster on all nodes",
                                                     relation, version));
  }
}

// Between two tags, versions differ only behind the "+".
TEST(Hello, ComparesTheNumberOfCommitsSinceATag) {
  const auto against = [](const char* version) {
    return check_hello(hello_of(version), {kSecondOfNode3, "1.10.0+12.g0123abcde"}).error().message();
  };
  EXPECT_THAT(against("1.10.0+9.gfedcba987"), StartsWith("the agent is older than this launcher"));
  EXPECT_THAT(against("1.10.0"), StartsWith("the agent is older than this launcher"));
  EXPECT_THAT(against("1.10.0+100.gfedcba987"), StartsWith("the agent is newer than this launcher"));
  EXPECT_THAT(against("1.10.0+12.gfedcba987"), StartsWith("the agent is not the same as this launcher"));
}

TEST(Hello, RefusesAnotherIncarnationAsStale) {
  for (const std::uint32_t incarnation : {1U, 3U}) {
    const Status stale = check(hello_of("1.10.0", {NodeId(3), Incarnation(incarnation)}));
    ASSERT_FALSE(stale);
    EXPECT_EQ(stale.error().code(), ErrorCode::kFenced);
  }
}

TEST(Hello, RefusesAnotherNode) {
  const Status wrong = check(hello_of("1.10.0", {NodeId(4), Incarnation(2)}));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code(), ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace muster::launcher
