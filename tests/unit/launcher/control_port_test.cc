#include "launcher/io/fleet/control_port.h"

#include <gtest/gtest.h>

#include "common/base/text.h"
#include "common/net/connect.h"
#include "common/wire/agent_identity.h"

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using Connected = Expected<std::shared_ptr<net::Connection>>;

constexpr AgentId kFirst{NodeId(3), Incarnation(1)};
constexpr AgentId kSecond{NodeId(3), Incarnation(2)};

awaitable<void> connect_to(std::uint16_t port, std::string identity, net::Key key,
                           std::optional<Connected>& result) {
  result = co_await net::connect("127.0.0.1", port, std::move(identity), key, 10s);
}

class ControlPortTest : public testing::Test {
 protected:
  ControlPortTest() {
    plan_.job.job_id = "job";
    port_ = ControlPort::open(io_.get_executor(), tasks_, plan_, {"127.0.0.1"},
                              [this](AgentId agent, std::shared_ptr<net::Connection> connection) {
                                callers_.push_back(agent);
                                connection->close();
                              })
                .value();
    EXPECT_TRUE(port_->start());
  }
  ~ControlPortTest() override {
    port_->stop();
    io_.restart();
    io_.run();
  }
  bool admits(const std::string& identity, const std::string& key) {
    std::optional<Connected> result;
    tasks_.spawn(connect_to(port(), identity, net::key_from_hex(key).value(), result));
    while (!result) io_.run_one();
    if (*result) (**result)->close();
    return result->has_value();
  }
  std::uint16_t port() const {
    const std::string addresses = port_->addresses();
    return parse_number<std::uint16_t>(addresses.substr(addresses.rfind(':') + 1)).value();
  }
  struct Invitation {
    std::string identity;
    std::string key;
  };
  Invitation invite(AgentId agent) { return {ControlPort::identity_of(plan_, agent), port_->invite(agent)}; }
  bool admits(const Invitation& invitation) { return admits(invitation.identity, invitation.key); }

  Plan plan_;
  asio::io_context io_;
  net::TaskGroup tasks_{io_.get_executor()};
  std::unique_ptr<ControlPort> port_;
  std::vector<AgentId> callers_;
};

TEST_F(ControlPortTest, AdmitsInvitedAgents) {
  const auto invitation = invite(kFirst);
  EXPECT_EQ(invitation.identity, "job/default/3/1");
  EXPECT_TRUE(admits(invitation));
  while (callers_.empty()) io_.run_one();
  EXPECT_EQ(callers_.at(0), kFirst);
}

TEST_F(ControlPortTest, AKeyOfAnEarlierIncarnationIsRefused) {
  const auto first = invite(kFirst);
  const auto second = invite(kSecond);
  EXPECT_NE(first.key, second.key);
  EXPECT_FALSE(admits(first));
  EXPECT_FALSE(admits(second.identity, first.key)) << "nor under the new incarnation's name";
  EXPECT_TRUE(callers_.empty());
  EXPECT_TRUE(admits(second));
  while (callers_.empty()) io_.run_one();
  EXPECT_EQ(callers_.at(0), kSecond);
}

TEST_F(ControlPortTest, RefusesTheKeyOfAnotherNode) {
  const auto invitation = invite(kFirst);
  const auto other = invite({NodeId(4), Incarnation(1)});
  EXPECT_FALSE(admits(other.identity, invitation.key));
  EXPECT_FALSE(admits("job/default/5/1", invitation.key)) << "it was not invited";
}

}  // namespace
}  // namespace muster::launcher
