// RemoteBootstrap over a fake HostAccess, for tests: no host, process or container.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/text.h"
#include "common/net/connect.h"
#include "launcher/io/fleet/remote_bootstrap.h"
#include "tests/scratch_directory.h"
#include "tests/unit/launcher/fake_host_access.h"

namespace muster::launcher {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Calls = RemoteBootstrap::Calls;
using Swept = FakeHostAccess::Swept;
using MaybeConnection = Expected<std::shared_ptr<net::Connection>>;

constexpr AgentId kAgent{NodeId(0), Incarnation(1)};
constexpr AgentId kElsewhere{NodeId(1), Incarnation(1)};
constexpr AgentId kSuccessor{NodeId(0), Incarnation(2)};
constexpr AgentId kAllOfNode0{NodeId(0), Incarnation()};
constexpr const char* kGreeting = "muster-agent 1 4711 99 x86_64";

inline awaitable<void> dial(net::Endpoint launcher, std::string identity, net::Key key,
                            std::optional<MaybeConnection>& result) {
  result = co_await net::connect(launcher.address, launcher.port, std::move(identity), key, 10s);
}

inline awaitable<void> receive_frame(std::shared_ptr<net::Connection> connection,
                                     std::optional<wire::Frame>& result) {
  auto frame = co_await connection->receive();
  if (frame) result = *std::move(frame);
}

class RemoteBootstrapTest : public testing::Test, protected Bootstrap::Listener {
 protected:
  RemoteBootstrapTest() {
    plan_.job.job_id = "job";
    plan_.job.log_directory = scratch_.path();
    plan_.hosts = {{"h0"}, {"h1"}};
    plan_.remote.bootstrap = BootstrapKind::kSsh;
    plan_.remote.listen = {"127.0.0.1"};
    plan_.control = Control::kStdio;
  }
  ~RemoteBootstrapTest() override {
    if (bootstrap_ && hosts_) close();
  }

  void begin(Calls calls = Calls::kLater, KeptAgents* kept = nullptr) {
    auto hosts = std::make_unique<FakeHostAccess>(io_.get_executor());
    hosts_ = hosts.get();
    bootstrap_ = std::make_unique<RemoteBootstrap>(io_.get_executor(), plan_, std::move(hosts), calls, kept);
    bootstrap_->listen(*this);
  }
  // Runs everything that can run without waiting.
  void settle() {
    do {
      io_.restart();
    } while (io_.poll() > 0);
  }
  template <class Condition>
  void run_until(Condition done) {
    const TimePoint limit = Clock::now() + 20s;
    io_.restart();
    while (!done() && Clock::now() < limit) io_.run_one_for(100ms);
    ASSERT_TRUE(done());
  }
  void close() {
    bootstrap_->close();
    run_until([this] { return bootstrap_->idle(); });
    EXPECT_TRUE(hosts_->finished);
    hosts_ = nullptr;
  }

  FakeHostShell& start(AgentId agent) {
    bootstrap_->start(agent);
    settle();
    EXPECT_EQ(hosts_->starts.back().agent, agent);
    return *hosts_->starts.back().shell;
  }
  // The agent greets and says how it talks.
  void greet(FakeHostShell& shell, const char* control) {
    shell.print(kGreeting);
    shell.print(control);
    settle();
  }
  // Starts an agent that talks through its shell.
  FakeHostShell& connect(AgentId agent) {
    FakeHostShell& shell = start(agent);
    greet(shell, "control stdio");
    EXPECT_TRUE(channels_.contains(agent));
    return shell;
  }
  // Starts an agent on a host that lacks it: the shell that delivers it.
  FakeHostShell& deliver(AgentId agent) {
    start(agent).print("muster-agent absent");
    settle();
    return *hosts_->errands.at(0).shell;
  }
  // Starts an agent, which may connect to the control port with what it was given.
  struct Caller {
    FakeHostShell& shell;
    net::Endpoint launcher;
    std::string identity;
    net::Key key;
  };
  Caller start_caller(AgentId agent) {
    FakeHostShell& shell = start(agent);
    const auto& words = hosts_->starts.back().arguments;
    const auto value = [&words](const char* flag) { return *std::next(std::ranges::find(words, flag)); };
    const std::string address = value("--connect");
    const std::size_t colon = address.rfind(':');
    return {shell,
            {address.substr(0, colon), parse_number<std::uint16_t>(address.substr(colon + 1)).value()},
            value("--identity"),
            net::key_from_hex(one_line(shell.input().substr(0, 64))).value()};
  }
  std::shared_ptr<net::Connection> call_from(const Caller& caller) {
    std::optional<MaybeConnection> result;
    asio::co_spawn(io_, dial(caller.launcher, caller.identity, caller.key, result), asio::detached);
    run_until([&] { return result.has_value(); });
    return result.value().value();
  }

  // Starts an agent that talks over TLS.
  struct TlsAgent {
    FakeHostShell& shell;
    std::shared_ptr<net::Connection> connection;
  };
  TlsAgent connect_over_tls(AgentId agent) {
    plan_.control = Control::kTcp;
    begin(Calls::kFirst);
    const Caller caller = start_caller(agent);
    greet(caller.shell, "control tcp");
    EXPECT_THAT(channels_, IsEmpty()) << "it has not connected yet";
    auto connection = call_from(caller);
    run_until([this, agent] { return channels_.contains(agent); });
    return {caller.shell, std::move(connection)};
  }

  struct Ended {
    AgentId agent;
    std::string how;
    AgentEnd end;
  };
  const Ended& only_end() {
    settle();
    EXPECT_EQ(ends_.size(), 1U);
    return ends_.at(0);
  }

  void agent_connected(AgentId agent, std::shared_ptr<net::Channel> channel) override {
    EXPECT_FALSE(channels_.contains(agent));
    channels_[agent] = std::move(channel);
  }
  void agent_ended(AgentId agent, std::string how, AgentEnd end) override {
    ends_.push_back({agent, std::move(how), end});
  }
  void leftovers_seen(std::vector<Leftover> left, bool) override { leftovers_.push_back(std::move(left)); }

  const ScratchDirectory scratch_;
  Plan plan_;
  asio::io_context io_;
  FakeHostAccess* hosts_ = nullptr;  // null: closed
  std::unique_ptr<RemoteBootstrap> bootstrap_;
  std::map<AgentId, std::shared_ptr<net::Channel>> channels_;
  std::vector<Ended> ends_;
  std::vector<std::vector<Leftover>> leftovers_;
};

}  // namespace muster::launcher
