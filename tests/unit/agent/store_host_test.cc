#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <vector>

#include "agent/io/store/local_store_host.h"

namespace muster::agent {
namespace {

// Calls from an address of this host: 127.0.0.`last`.
bool takes_calls(std::int32_t port, std::uint32_t last = 1) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl((127U << 24) + last);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return false;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

class StoreHostTest : public testing::Test {
 protected:
  static wire::PrepareAttempt plan(bool host_store) {
    wire::PrepareAttempt plan;
    plan.host_store = host_store;
    plan.store_address = "127.0.0.1";
    return plan;
  }
  std::int32_t open_and_keep() {
    const auto port = host_.open({}, plan(true));
    EXPECT_TRUE(port) << port.error().message();
    host_.close(/*keep=*/true);
    return port.value_or(0);
  }

  // Why the store at a port of this host cannot be reached; "" if it answers.
  std::string reach(std::int32_t port, bool store_on_agent = true, const char* address = "127.0.0.1") {
    std::optional<Status> reached;
    wire::JobSpec job;
    job.store_on_agent = store_on_agent;
    LocalStoreHost caller(io_);
    caller.reach(job, {address, port, {}}, [&](const Status& said) { reached = said; });
    io_.restart();
    while (!reached && io_.run_one_for(std::chrono::seconds(5)) > 0) {
    }
    if (!reached) return "nothing was said";
    return *reached ? "" : reached->error().message();
  }

  asio::io_context io_{1};
  LocalStoreHost host_{io_};
};

TEST_F(StoreHostTest, AStoreThatWasKeptIsServedUntilTheNextAttemptIsOpened) {
  const std::int32_t kept = open_and_keep();
  EXPECT_TRUE(takes_calls(kept));
  EXPECT_EQ(host_.open({}, plan(false)).value(), 0);
  EXPECT_FALSE(takes_calls(kept));
}

TEST_F(StoreHostTest, AKeptStoreGivesItsPortToTheNextOne) {
  wire::JobSpec job;
  job.master_port = open_and_keep();
  const auto again = host_.open(job, plan(true));
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(*again, job.master_port);
}

TEST_F(StoreHostTest, AStoreIsReachedWhereItAnswers) {
  const auto port = host_.open({}, plan(true));
  ASSERT_TRUE(port);
  EXPECT_EQ(reach(*port), "");
  host_.close(/*keep=*/false);
  EXPECT_EQ(reach(*port), "Connection refused");
  EXPECT_EQ(reach(*port, true, "h1"), "Invalid argument");
}

TEST_F(StoreHostTest, AStoreThatRefusesThisHostIsNotReached) {
  wire::PrepareAttempt others = plan(true);
  others.peers = {"10.77.0.11"};
  const auto port = host_.open({}, others);
  ASSERT_TRUE(port);
  EXPECT_EQ(reach(*port), "it closes connections from this host");
}

TEST_F(StoreHostTest, EachHostThatIsRefusedIsNamedOnce) {
  std::vector<std::string> remarks;
  LocalStoreHost host(io_, [&](const std::string& what) { remarks.push_back(what); });
  wire::PrepareAttempt others = plan(true);
  others.peers = {"10.77.0.11"};
  const auto port = host.open({}, others);
  ASSERT_TRUE(port);
  for (const std::uint32_t caller : {2, 2, 3, 2, 4}) EXPECT_TRUE(takes_calls(*port, caller));
  const TimePoint deadline = Clock::now() + std::chrono::seconds(20);
  for (io_.restart(); remarks.size() < 3 && Clock::now() < deadline;)
    io_.run_one_for(std::chrono::milliseconds(100));
  const auto refuses = [](int caller) {
    return fmt::format(
        "the c10d store refuses a connection from 127.0.0.{}: not an address of this job's hosts", caller);
  };
  EXPECT_EQ(remarks, (std::vector<std::string>{refuses(2), refuses(3), refuses(4)}));
}

TEST_F(StoreHostTest, ItsHostIsReachedIfRankZeroServesTheStore) {
  wire::JobSpec job;
  job.store_on_agent = false;
  const auto port = host_.open(job, plan(true));
  ASSERT_TRUE(port);
  EXPECT_EQ(reach(*port, /*store_on_agent=*/false), "");
}

TEST_F(StoreHostTest, NothingIsReportedAboutAStoreAfterTheAttempt) {
  const auto port = host_.open({}, plan(true));
  ASSERT_TRUE(port);
  LocalStoreHost caller(io_);
  bool said = false;
  caller.reach({}, {"127.0.0.1", *port, {}}, [&](const Status&) { said = true; });
  caller.close(false);
  io_.restart();
  io_.run_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(said);
}

}  // namespace
}  // namespace muster::agent
