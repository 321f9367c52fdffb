#include "launcher/core/fleet/host_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kGateClosed = "kex_exchange_identification: Connection closed by remote host";

HostStart at_host() {
  return {{.bootstrap = BootstrapKind::kSsh}, {.name = "h1"}, "x86_64"};
}

template <class Step>
const Step* as(const std::optional<HostStart::Step>& step) {
  return step ? std::get_if<Step>(&*step) : nullptr;
}

TEST(HostStart, AnAgentThatSpeaksIsSpokenToWhateverTheShellPrintedBefore) {
  HostStart start = at_host();
  EXPECT_FALSE(start.on_line("Welcome to h1"));
  EXPECT_FALSE(start.on_line("control tcp"));
  const auto step = start.on_line("muster-agent 1 4711 99 0.1.0");
  ASSERT_TRUE(as<HostStart::Speak>(step));
  EXPECT_EQ(as<HostStart::Speak>(step)->agent.pid, 4711);
}

TEST(HostStart, AHostThatLacksTheAgentGetsItOnce) {
  HostStart start = at_host();
  ASSERT_TRUE(as<HostStart::Bring>(start.on_line("muster-agent absent x86_64")));
  ASSERT_TRUE(as<HostStart::Start>(start.on_brought(HostStart::Missing::kAgent)));
  const auto again = start.on_line("muster-agent absent x86_64");
  ASSERT_TRUE(as<HostStart::GiveUp>(again));
  EXPECT_THAT(as<HostStart::GiveUp>(again)->why, HasSubstr("cannot be used"));
}

TEST(HostStart, ADeliveryThatABusyHostTurnedAwayIsMadeAgain) {
  HostStart start = at_host();
  ASSERT_TRUE(as<HostStart::Bring>(start.on_line("muster-agent absent x86_64")));
  ASSERT_TRUE(as<HostStart::Start>(start.on_failure({"x", 255, kGateClosed}, 0)));
  EXPECT_TRUE(as<HostStart::Bring>(start.on_line("muster-agent absent x86_64")));
}

TEST(HostStart, AHostOfAnotherKindIsNamedAndGetsNothing) {
  HostStart start = at_host();
  const auto step = start.on_line("muster-agent absent aarch64");
  ASSERT_TRUE(as<HostStart::GiveUp>(step));
  EXPECT_THAT(as<HostStart::GiveUp>(step)->why, HasSubstr("aarch64, than this machine, x86_64"));
  EXPECT_THAT(as<HostStart::GiveUp>(step)->why, HasSubstr("--remote-agent"));
}

TEST(HostStart, ABusyHostIsTriedFiveTimesMoreEachTimeLaterAndNotByAllAtOnce) {
  HostStart start = at_host();
  HostStart other = at_host();
  Duration before{};
  for (int i = 0; i < 5; ++i) {
    const auto soon = start.on_failure({"x", 255, kGateClosed}, 0);
    const auto late = other.on_failure({"x", 255, kGateClosed}, 1);
    ASSERT_TRUE(as<HostStart::Start>(soon)) << i;
    EXPECT_EQ(as<HostStart::Start>(soon)->after, 100ms * (1 << i));
    EXPECT_EQ(as<HostStart::Start>(late)->after, 300ms * (1 << i));
    EXPECT_GT(as<HostStart::Start>(soon)->after, before);
    before = as<HostStart::Start>(soon)->after;
  }
  const auto last = start.on_failure({"ssh ended with 255", 255, kGateClosed}, 0);
  ASSERT_TRUE(as<HostStart::GiveUp>(last));
  EXPECT_THAT(as<HostStart::GiveUp>(last)->why, HasSubstr("ssh ended with 255: kex_exchange"));
}

TEST(HostStart, AnyOtherFailureIsTheEnd) {
  for (const HostStart::Failure& failure :
       {HostStart::Failure{"ssh ended with 255", 255, "Host key verification failed."},
        HostStart::Failure{"no answer within 10 s", std::nullopt, kGateClosed},
        HostStart::Failure{"ssh ended with 1", 1, kGateClosed}}) {
    HostStart start = at_host();
    const auto step = start.on_failure(failure, 0.5);
    ASSERT_TRUE(as<HostStart::GiveUp>(step)) << failure.what;
    EXPECT_THAT(as<HostStart::GiveUp>(step)->why, StartsWith(failure.what));
  }
}

}  // namespace
}  // namespace muster::launcher
