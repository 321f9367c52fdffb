#include "launcher/core/job/rendezvous.h"

#include <gmock/gmock.h>

#include "tests/unit/launcher/job_fixture.h"

namespace muster::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const Whereabouts kFirstPlace{"h1", {"docker0 172.17.0.1/16", "eth0 10.77.0.10/24", "ib0 192.168.3.1/24"}};
const Whereabouts kSecondPlace{"h2", {"docker0 172.17.0.1/16", "eth0 10.77.0.11/24", "ib1 192.168.3.2/24"}};

TEST(Meet, ChoosesAnAddressOfRankZerosHostThatTheOthersCanReach) {
  struct Case {
    const char* what;
    std::vector<Whereabouts> members;
    std::string interface;
    std::string address;
  };
  const Case cases[] = {
      {"one host", {kFirstPlace, kFirstPlace}, "", "127.0.0.1"},
      {"agents that tell nothing", {{"h1", {}}, {"h1", {}}}, "", "127.0.0.1"},
      {"an agent that tells nothing", {kFirstPlace, {"h2", {}}}, "", "127.0.0.1"},
      {"a common network, and not the one that each host has for itself",
       {kFirstPlace, kSecondPlace},
       "",
       "10.77.0.10"},
      {"rank 0 elsewhere", {kSecondPlace, kFirstPlace}, "", "10.77.0.11"},
      {"two agents on each host", {kFirstPlace, kFirstPlace, kSecondPlace, kSecondPlace}, "", "10.77.0.10"},
      {"only the second network is common to all",
       {kFirstPlace, kSecondPlace, {"h3", {"eth0 10.99.0.5/24", "ib0 192.168.3.9/24"}}},
       "",
       "192.168.3.1"},
      {"none in common",
       {{"h1", {"eth0 fd00:1::10/64", "eth0 10.1.0.10/24"}}, {"h2", {"eth0 10.2.0.10/24"}}},
       "",
       "10.1.0.10"},
      {"addresses without a network",
       {{"h1", {"ens4 10.128.0.2/32"}}, {"h2", {"ens4 10.128.0.3/32"}}},
       "",
       "10.128.0.2"},
      {"IPv6 only", {{"h1", {"eth0 fd00::10/64"}}, {"h2", {"eth0 fd00::11/64"}}}, "", "fd00::10"},
      {"IPv4 before IPv6",
       {{"h1", {"eth0 fd00::10/64", "eth0 10.77.0.10/24"}},
        {"h2", {"eth0 fd00::11/64", "eth0 10.77.0.11/24"}}},
       "",
       "10.77.0.10"},
      {"IPv6 where it alone is common",
       {{"h1", {"eth0 fd00::10/64", "eth0 10.77.0.10/24"}}, {"h2", {"eth0 fd00::11/64"}}},
       "",
       "fd00::10"},
      {"an interface by name", {kFirstPlace, kSecondPlace}, "ib0", "192.168.3.1"},
      {"an interface by network", {kFirstPlace, kSecondPlace}, "192.168.0.0/16", "192.168.3.1"},
      {"an interface by IPv6 network",
       {{"h1", {"eth0 10.77.0.10/24", "eth0 fd00::10/64"}}, {"h2", {"eth0 10.77.0.11/24"}}},
       "fd00::/8",
       "fd00::10"},
      {"two names of one place", {kFirstPlace, {"h1-too", kFirstPlace.addresses}}, "eth0", "10.77.0.10"},
      {"not an address",
       {{"h1", {"x", "eth0 1.2.3/24", "eth0 10.0.0.1/33", "eth0 10.0.0.2/24"}}, kSecondPlace},
       "",
       "10.0.0.2"},
  };
  for (const Case& each : cases) {
    const auto met = meet(each.members, each.interface);
    ASSERT_TRUE(met) << each.what;
    EXPECT_EQ(met->store_address, each.address) << each.what;
  }
}

TEST(Meet, AdmitsTheMembersFromAllTheirAddresses) {
  const auto met = meet({kFirstPlace, kSecondPlace}, "");
  ASSERT_TRUE(met);
  EXPECT_THAT(met->peers,
              ElementsAre("10.77.0.10", "10.77.0.11", "172.17.0.1", "192.168.3.1", "192.168.3.2"));
  EXPECT_THAT(meet({kFirstPlace, kFirstPlace}, "")->peers, IsEmpty())
      << "the kernel says whose a local socket is";
}

TEST(Meet, ReportsAMissingInterface) {
  for (const std::string interface : {"eth9", "10.99.0.0/16", "10.99.0.0/99"}) {
    const auto met = meet({kFirstPlace, kSecondPlace}, interface);
    ASSERT_FALSE(met) << interface;
    EXPECT_THAT(met.error().message(), HasSubstr("--interface " + interface +
                                                 ": rank 0's host, h1, has no address there; "
                                                 "it has docker0 172.17.0.1/16, eth0 10.77.0.10/24"));
  }
}

TEST(Meet, TakesAnotherCommonNetworkIfOneIsBroken) {
  const auto address = [](const std::set<std::string>& unreachable, const char* interface = "") {
    return meet({kFirstPlace, kSecondPlace}, interface, unreachable)->store_address;
  };
  EXPECT_EQ(address({"10.77.0.10"}), "192.168.3.1");
  EXPECT_EQ(address({"10.77.0.10", "192.168.3.1"}), "10.77.0.10") << "docker0 does not connect hosts";
  EXPECT_EQ(address({"10.77.0.10"}, "eth0"), "10.77.0.10") << "the user wants this one";
}

Plan two_hosts() {
  Plan plan = two_nodes_of_two(1);
  plan.hosts = {{.name = "h1", .slots = 2}, {.name = "h2", .slots = 2}};
  return plan;
}

class JobRendezvous : public JobTest {
 protected:
  JobRendezvous() : JobTest(two_hosts()) {}
  // Two hosts with two networks, told to start their workers.
  void start_on_two_hosts() {
    happen(Began{});
    greet(0, "h1", {"eth0 10.77.0.10/24", "ib0 192.168.3.1/24"});
    greet(1, "h2", {"eth0 10.77.0.11/24", "ib0 192.168.3.2/24"});
    begin();
    start_workers();
  }
  static wire::AttemptRefused unreachable(const char* address) {
    return {
        .message = fmt::format("the store at {} port 4711 cannot be reached: no answer within 5 s", address),
        .unreachable = true,
        .no_answer = true};
  }
  std::string store_address() const {
    const auto prepared = sent<wire::PrepareAttempt>();
    return prepared.empty() ? "" : prepared[0].second.store_address;
  }
};

TEST_F(JobRendezvous, TriesAnotherNetworkWithoutARestart) {
  start_on_two_hosts();
  said(1, unreachable("10.77.0.10"));
  EXPECT_THAT(told(),
              HasSubstr("node1 (h2): the store at 10.77.0.10 port 4711 cannot be reached: no answer within "
                        "5 s; trying another network"));
  EXPECT_EQ(sent<wire::StopWorkers>().size(), 2U);
  empty(1);
  empty(0);
  begin();
  EXPECT_EQ(store_address(), "192.168.3.1");
  EXPECT_EQ(sent<wire::PrepareAttempt>()[0].second.restart_count, 0);
  start_workers();
  EXPECT_EQ(sent<wire::StartWorkers>()[1].second.master_address, "192.168.3.1");
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0);
  empty_all();
  EXPECT_EQ(job.verdict().exit_code, 0);
  EXPECT_EQ(job.restart_count(), 0);
}

TEST_F(JobRendezvous, RefusesTheAttemptIfNoNetworkIsLeft) {
  start_on_two_hosts();
  said(1, unreachable("10.77.0.10"));
  empty_all();
  begin();
  start_workers();
  said(1, unreachable("192.168.3.1"));
  empty_all();
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, 125);
  EXPECT_EQ(job.verdict().cause,
            "h2: the store at 192.168.3.1 port 4711 cannot be reached: no answer within 5 s; "
            "choose a network that connects all nodes with --interface NAME|CIDR");
}

TEST_F(JobRendezvous, DoesNotTryAnotherNetworkAfterAnInterrupt) {
  start_on_two_hosts();
  said(1, unreachable("10.77.0.10"));
  happen(Interrupted{SIGINT});
  empty_all();
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_NE(job.verdict().exit_code, 0);
}

TEST_F(JobRendezvous, ANodeThatNoNetworkReachesInARestartIsLost) {
  start_on_two_hosts();
  worker_exits(2, 3);
  empty_all();
  begin();
  start_workers();
  said(1, unreachable("10.77.0.10"));
  empty_all();
  begin();
  EXPECT_EQ(store_address(), "192.168.3.1");
  start_workers();
  said(1, unreachable("192.168.3.1"));
  ASSERT_EQ(decided<KillAgent>().size(), 1U);
  EXPECT_EQ(decided<KillAgent>()[0].agent.node, NodeId(1));
}

TEST_F(JobRendezvous, RanksOfSeveralHostsMeetAtAnAddressThatIsNotLoopback) {
  happen(Began{});
  greet(0, "h1", {"eth0 10.77.0.10/24"});
  greet(1, "h2", {"eth0 10.77.0.11/24"});
  begin();
  const auto prepared = sent<wire::PrepareAttempt>();
  ASSERT_EQ(prepared.size(), 2U);
  EXPECT_EQ(prepared[0].second.store_address, "10.77.0.10");
  EXPECT_THAT(prepared[0].second.peers, testing::ElementsAre("10.77.0.10", "10.77.0.11"));
  EXPECT_THAT(prepared[1].second.peers, testing::IsEmpty()) << "it does not run the store";
  said(0, wire::AttemptPrepared{4711});
  said(1, wire::AttemptPrepared{0});
  for (const auto& [node, start] : sent<wire::StartWorkers>()) EXPECT_EQ(start.master_address, "10.77.0.10");
  EXPECT_EQ(sent<wire::StartWorkers>().size(), 2U);
}

TEST(Meet, RefusesMoreAddressesThanFitIntoAMessage) {
  Whereabouts many{"h2", {}};
  for (int i = 0; i < 200'000; ++i)
    many.addresses.push_back(fmt::format("eth0 10.{}.{}.{}/8", i >> 16, (i >> 8) & 255, i & 255));
  const auto refused = meet({kFirstPlace, many}, "");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("addresses, more than fit into one message"));
}

TEST_F(JobRendezvous, AnInterfaceThatRankZerosHostDoesNotHaveEndsTheJob) {
  Plan plan = two_nodes_of_two(1);
  plan.job.interface = "eth9";
  anew(plan);
  happen(Began{});
  greet(0, "h1", {"eth0 10.77.0.10/24"});
  greet(1, "h2", {"eth0 10.77.0.11/24"});
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, 2);
  EXPECT_THAT(job.verdict().cause, HasSubstr("--interface eth9: rank 0's host, h1"));
}

// Three hosts with one network, and no rank on a fourth.
class JobApart : public JobRendezvous {
 protected:
  JobApart() {
    Plan plan = two_nodes_of_two(3);
    plan.nodes.push_back({NodeId(2), Rank(4), 2});
    plan.spare_nodes = 1;
    anew(plan);
  }
  void restart() {
    happen(Began{});
    for (int node = 0; node < 4; ++node)
      greet(node, fmt::format("h{}", node), {fmt::format("eth0 10.77.0.{}/24", 10 + node)});
    begin();
    start_three();
    worker_exits(0, 3);
    for (int node = 0; node < 3; ++node) empty(node);
    begin();
    start_three();
  }
  void start_three() {
    said(0, wire::AttemptPrepared{4711});
    said(1, wire::AttemptPrepared{});
    said(2, wire::AttemptPrepared{});
  }
  std::vector<int> killed() const {
    std::vector<int> nodes;
    for (const KillAgent& each : decided<KillAgent>()) nodes.push_back(each.agent.node.value());
    return nodes;
  }
};

TEST_F(JobApart, LosesTheStoresHostIfNoOtherHostReachesIt) {
  restart();
  said(0, wire::WorkersStarted{{1, 2}});
  said(1, unreachable("10.77.0.10"));
  EXPECT_THAT(killed(), ElementsAre(0));
  said(2, unreachable("10.77.0.10"));
  EXPECT_THAT(killed(), IsEmpty());
  empty(1);
  empty(2);
  happen(LeftoversSeen{});
  begin();
  EXPECT_EQ(store_address(), "10.77.0.11");
}

// The store refuses a node whose address has changed, or the node has lost its network: the node reports that
// before others have started.
TEST_F(JobApart, LosesAHostThatLearnsAtOnceThatItDoesNotReachTheStore) {
  restart();
  said(0, wire::WorkersStarted{{1, 2}});
  wire::AttemptRefused refused = unreachable("10.77.0.10");
  refused.no_answer = false;
  said(2, refused);
  EXPECT_THAT(killed(), ElementsAre(2));
}

TEST_F(JobApart, LosesTheOnlyHostThatDoesNotReachTheStore) {
  restart();
  said(0, wire::WorkersStarted{{1, 2}});
  said(1, wire::WorkersStarted{{3, 4}});
  said(2, unreachable("10.77.0.10"));
  EXPECT_THAT(killed(), ElementsAre(2));
}

}  // namespace
}  // namespace muster::launcher
