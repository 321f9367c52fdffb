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
  return {{.bootstrap = BootstrapKind::kSsh}, {.name = "h1"}, "x86_64", /*needed=*/true};
}

template <class Step>
const Step* as(const std::optional<HostStart::Step>& step) {
  return step ? std::get_if<Step>(&*step) : nullptr;
}

TEST(HostStart, FindsTheAgentsGreetingAfterAnyOutputOfTheShell) {
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

TEST(HostStart, RetriesADeliveryThatABusyHostRefused) {
  HostStart start = at_host();
  ASSERT_TRUE(as<HostStart::Bring>(start.on_line("muster-agent absent x86_64")));
  ASSERT_TRUE(as<HostStart::Start>(start.on_failure({"x", 255, kGateClosed}, 0)));
  EXPECT_TRUE(as<HostStart::Bring>(start.on_line("muster-agent absent x86_64")));
}

TEST(HostStart, RefusesAHostOfAnotherArchitecture) {
  HostStart start = at_host();
  const auto step = start.on_line("muster-agent absent aarch64");
  ASSERT_TRUE(as<HostStart::GiveUp>(step));
  EXPECT_THAT(as<HostStart::GiveUp>(step)->why, HasSubstr("aarch64, differs from this machine's, x86_64"));
  EXPECT_TRUE(as<HostStart::GiveUp>(step)->refused);
  EXPECT_THAT(as<HostStart::GiveUp>(step)->why, HasSubstr("--remote-agent"));
}

TEST(HostStart, RetriesABusyHostFiveTimesWithGrowingRandomPauses) {
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

TEST(HostStart, ALastingSshFailureIsARefusalIfTheHostIsNeeded) {
  const auto refused = [](int exit_code, const char* line, bool needed = true) {
    HostStart start({.bootstrap = BootstrapKind::kSsh}, {.name = "h1"}, "x86_64", needed);
    const auto step = start.on_failure({"ssh ended", exit_code, line}, 0);
    return as<HostStart::GiveUp>(step) != nullptr && as<HostStart::GiveUp>(step)->refused;
  };
  const char* unknown = "ssh: Could not resolve hostname h1: Name or service not known";
  for (const char* line :
       {unknown, "Host key verification failed.", "me@h1: Permission denied (publickey,password)."})
    EXPECT_TRUE(refused(255, line)) << line;
  for (const char* line : {"ssh: Could not resolve hostname h1: Temporary failure in name resolution",
                           "ssh: connect to host h1 port 22: Connection refused", ""})
    EXPECT_FALSE(refused(255, line)) << line;
  EXPECT_FALSE(refused(1, unknown)) << "ssh did not print it";
  EXPECT_FALSE(refused(255, unknown, false)) << "the job can do without it";
}

HostStart of_containers(Pull pull, BootstrapKind bootstrap = BootstrapKind::kSsh, bool needed = true) {
  RemoteOptions options{.bootstrap = bootstrap};
  options.container = {.image = "train:1", .pull = pull};
  return {options, {.name = "h1"}, "x86_64", needed};
}

const HostStart::Failure kNoImage{"ssh ended with 125", 125, "docker: Error: No such image: train:1."};

TEST(HostStart, AMissingImageIsPulledOnce) {
  HostStart start = of_containers(Pull::kMissing);
  ASSERT_TRUE(as<HostStart::Start>(start.first()));
  const auto missing = start.on_failure(kNoImage, 0);
  ASSERT_TRUE(as<HostStart::Bring>(missing));
  EXPECT_EQ(as<HostStart::Bring>(missing)->what, HostStart::Missing::kImage);
  ASSERT_TRUE(as<HostStart::Start>(start.on_brought(HostStart::Missing::kImage)));
  const auto again = start.on_failure(kNoImage, 0);
  ASSERT_TRUE(as<HostStart::GiveUp>(again));
  EXPECT_THAT(as<HostStart::GiveUp>(again)->why,
              HasSubstr("No such image: train:1. (check the image's name"));
}

TEST(HostStart, AHostMayLackBothAgentAndImage) {
  HostStart start = of_containers(Pull::kMissing);
  const auto agent = start.on_line("muster-agent absent x86_64");
  ASSERT_TRUE(as<HostStart::Bring>(agent));
  EXPECT_EQ(as<HostStart::Bring>(agent)->what, HostStart::Missing::kAgent);
  ASSERT_TRUE(as<HostStart::Start>(start.on_brought(HostStart::Missing::kAgent)));
  EXPECT_TRUE(as<HostStart::Bring>(start.on_failure(kNoImage, 0)));
}

TEST(HostStart, PullAlwaysAndNeverAreRespected) {
  const auto first = of_containers(Pull::kAlways).first();
  ASSERT_TRUE(as<HostStart::Bring>(first));
  EXPECT_EQ(as<HostStart::Bring>(first)->what, HostStart::Missing::kImage);
  HostStart never = of_containers(Pull::kNever);
  ASSERT_TRUE(as<HostStart::Start>(never.first()));
  EXPECT_TRUE(as<HostStart::GiveUp>(never.on_failure(kNoImage, 0)));
  EXPECT_TRUE(as<HostStart::Start>(of_containers(Pull::kAlways, BootstrapKind::kDocker).first()))
      << "the launcher has pulled it before";
  HostStart no_container = at_host();
  EXPECT_TRUE(as<HostStart::GiveUp>(no_container.on_failure(kNoImage, 0)));
}

// On this machine's engine every failure is lasting. On another host many failures are temporary; and if the
// job can do without the host, the host only counts as lost.
TEST(HostStart, AContainerThatEndsBeforeItsAgentSpeaksIsRefused) {
  const HostStart::Failure ended{"container ended with 1", 1, "agent: version `GLIBC_2.34' not found"};
  const auto refused = [&](HostStart start, const HostStart::Failure& failure) {
    const auto step = start.on_failure(failure, 0);
    return as<HostStart::GiveUp>(step) != nullptr && as<HostStart::GiveUp>(step)->refused;
  };
  EXPECT_TRUE(refused(of_containers(Pull::kMissing, BootstrapKind::kDocker), ended));
  EXPECT_TRUE(refused(of_containers(Pull::kMissing, BootstrapKind::kDocker),
                      {.what = "no such network", .refused = true}));
  EXPECT_FALSE(
      refused(of_containers(Pull::kMissing, BootstrapKind::kDocker), {.what = "no answer within 10 s"}));
  EXPECT_TRUE(refused(of_containers(Pull::kMissing), ended));
  EXPECT_TRUE(refused(of_containers(Pull::kNever), kNoImage));
  EXPECT_TRUE(refused(of_containers(Pull::kMissing, BootstrapKind::kDocker, false), ended));
  EXPECT_FALSE(refused(of_containers(Pull::kMissing, BootstrapKind::kSsh, false), ended));
  for (const char* passing : {"docker: Cannot connect to the Docker daemon at unix:///s.",
                              "Get https://r/v2/: dial tcp 10.0.0.1:443: i/o timeout", "who knows", ""})
    EXPECT_FALSE(refused(of_containers(Pull::kMissing), {"ssh ended with 125", 125, passing})) << passing;
  HostStart start = of_containers(Pull::kMissing, BootstrapKind::kDocker);
  const auto step = start.on_failure(ended, 0);
  EXPECT_THAT(as<HostStart::GiveUp>(step)->why,
              HasSubstr("(the image's C library is older than Muster needs"));
}

}  // namespace
}  // namespace muster::launcher
