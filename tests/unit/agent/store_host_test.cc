#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "agent/io/store/local_store_host.h"

namespace muster::agent {
namespace {

bool takes_calls(std::int32_t port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
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

}  // namespace
}  // namespace muster::agent
