// The addresses at which ranks meet, on hosts with two networks; one is cut between some hosts.
#include <gmock/gmock.h>

#include "tests/hosts/launch_hosts.h"

namespace muster::hosts {
namespace {

using testing::HasSubstr;
using testing::Not;

// The launcher is on h0 and reaches all; the ranks are on h1 and h2.
class LaunchNetwork : public LaunchHosts {
 protected:
  void SetUp() override {
    LaunchHosts::SetUp();
    if (IsSkipped()) return;
    lab_ = std::make_unique<Lab>(3, 2);
  }
  void launch_apart(std::vector<std::string> flags) {
    lab_->cut(1, 2);
    launch_on("h1,h2", flags, kMeet);
  }
  // Each rank reaches the store at the address in its environment.
  const std::vector<std::string> kMeet{
      "python3", "-c",
      "import os, socket\n"
      "a = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))\n"
      "socket.create_connection(a, 5).close()\n"
      "print('rank', os.environ['RANK'], 'meets at', a[0], 'by', os.environ['GLOO_SOCKET_IFNAME'],\n"
      "      'restart', os.environ['TORCHELASTIC_RESTART_COUNT'], flush=True)\n"};
};

TEST_F(LaunchNetwork, TheInterfaceThatTheUserNamesIsUsed) {
  launch_on("h1,h2", {"--interface", "eth1"}, kMeet);
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  for (const char* rank : {"0", "1"})
    EXPECT_THAT(run_->out(), HasSubstr(fmt::format("rank {} meets at {} by eth1", rank, Lab::address(1, 1))));
  run_.reset();
  launch_on("h1,h2", {}, kMeet);
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->out(), HasSubstr(fmt::format("rank 1 meets at {} by eth0", Lab::address(1))));
}

TEST_F(LaunchNetwork, WhereOneIsCutBetweenTheMembersTheOtherIsUsed) {
  launch_apart({});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->err(), HasSubstr(fmt::format("node1 (h2): the store at {} port", Lab::address(1))));
  EXPECT_THAT(run_->err(), HasSubstr("cannot be reached: "));
  EXPECT_THAT(run_->err(), HasSubstr("; trying another network"));
  for (const char* rank : {"0", "1"})
    EXPECT_THAT(run_->out(),
                HasSubstr(fmt::format("rank {} meets at {} by eth1 restart 0", rank, Lab::address(1, 1))));
  EXPECT_EQ(run_->report()["restarts"], 0);
  expect_nothing_left();
}

// The only address for h1's agent has no listener.
TEST_F(LaunchNetwork, AHostThatCannotCallIsSpokenToThroughItsShellUnlessTcpIsDemanded) {
  const std::vector<std::string> flags{
      "--exec", lab_->enter_program() + " {host}", "--listen", "127.0.0.1", "--max-restarts", "0"};
  for (const bool demanded : {false, true}) {
    std::vector<std::string> more = flags;
    more.insert(more.end(), {"--control", demanded ? "tcp" : "auto"});
    launch_on("h1", more, {"sh", "-c", "sleep 2; echo still here"});
    EXPECT_EQ(run_->exit_code() == 0, !demanded) << run_->err();
    EXPECT_EQ(printed_count(": still here"), demanded ? 0 : 1) << run_->out();
    if (demanded) EXPECT_THAT(run_->err(), HasSubstr("cannot connect to 127.0.0.1 port "));
    expect_nothing_left();
  }
}

TEST_F(LaunchNetwork, WhereNoOtherIsAllowedTheAttemptIsRefusedBeforeItsWorkersStart) {
  launch_apart({"--interface", "10.77.0.0/16"});
  EXPECT_EQ(run_->exit_code(), 125) << run_->err();
  EXPECT_THAT(run_->err(), HasSubstr(fmt::format("h2: the store at {} port", Lab::address(1))));
  EXPECT_THAT(run_->err(), HasSubstr("; choose a network"));
  EXPECT_THAT(run_->out(), Not(HasSubstr("rank 1")));
  expect_nothing_left();
}

}  // namespace
}  // namespace muster::hosts
