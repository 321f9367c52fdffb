// RemoteBootstrap over a fake HostAccess: no host, process or container.
#include "launcher/io/fleet/remote_bootstrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/wire/codec.h"
#include "tests/unit/launcher/remote_bootstrap_fixture.h"
#include "tests/warnings.h"

namespace muster::launcher {
namespace {

// ---- Start ----

TEST_F(RemoteBootstrapTest, AnAgentGetsItsKeyOnStdinAndTalksThroughItsShell) {
  begin();
  FakeHostShell& shell = start(kAgent);
  EXPECT_THAT(hosts_->starts.at(0).arguments,
              ElementsAre("--stdio", "--identity", "job/default/0/1", "--node", "0", "--incarnation", "1"));
  EXPECT_EQ(shell.input(), std::string(64, '0') + "\n") << "without a control port the key is not used";
  shell.print("Welcome to h0!");
  shell.print(kGreeting);
  settle();
  EXPECT_THAT(channels_, IsEmpty()) << "it has not said yet how it talks";
  shell.print("control stdio");
  settle();
  EXPECT_TRUE(channels_.contains(kAgent));
  EXPECT_TRUE(bootstrap_->is_through_shell(kAgent));
  EXPECT_FALSE(shell.input_ended());
  EXPECT_THAT(ends_, IsEmpty());
}

TEST_F(RemoteBootstrapTest, AllAgentsWaitForOnePreparation) {
  begin();
  hosts_->hold();
  bootstrap_->start(kAgent);
  bootstrap_->start(kElsewhere);
  settle();
  EXPECT_THAT(hosts_->starts, IsEmpty());
  hosts_->release();
  settle();
  EXPECT_EQ(hosts_->starts.size(), 2U);
  EXPECT_EQ(hosts_->prepare_count, 1);
}

TEST_F(RemoteBootstrapTest, APreparationThatIsRefusedRefusesAllAgents) {
  begin();
  hosts_->prepared = failure(ErrorCode::kInvalidArgument, "cannot create a network: no address");
  bootstrap_->start(kAgent);
  bootstrap_->start(kElsewhere);
  settle();
  const auto refused = testing::AllOf(testing::Field(&Ended::how, "cannot create a network: no address"),
                                      testing::Field(&Ended::end, AgentEnd::kRefused));
  EXPECT_THAT(ends_, ElementsAre(refused, refused));
  EXPECT_THAT(hosts_->starts, IsEmpty());
}

TEST_F(RemoteBootstrapTest, OnlySshParallelAgentsStartAtATime) {
  plan_.remote.ssh_parallel = 1;
  begin();
  FakeHostShell& first = start(kAgent);
  bootstrap_->start(kElsewhere);
  settle();
  EXPECT_EQ(hosts_->starts.size(), 1U);
  greet(first, "control stdio");
  EXPECT_EQ(hosts_->starts.size(), 2U);
}

TEST_F(RemoteBootstrapTest, AHostThatCannotBeReachedFailsAndOneThatRefusesIsRefused) {
  for (const auto& [code, end] : {std::pair(ErrorCode::kUnavailable, AgentEnd::kOther),
                                  std::pair(ErrorCode::kInvalidArgument, AgentEnd::kRefused)}) {
    ends_.clear();
    begin();
    hosts_->refusal = Error(code, "no such thing");
    start(kAgent);
    EXPECT_THAT(only_end().how, testing::StartsWith("no such thing"));
    EXPECT_EQ(only_end().end, end);
    close();
  }
}

TEST_F(RemoteBootstrapTest, AShellThatEndsBeforeItsAgentGreetsGivesTheReason) {
  begin();
  start(kAgent).end(255, "ssh: connect to host h0 port 22: Connection refused");
  EXPECT_THAT(only_end().how,
              HasSubstr("ssh ended with 255: ssh: connect to host h0 port 22: Connection refused"));
  EXPECT_EQ(only_end().end, AgentEnd::kOther) << "the host may be booting";
}

TEST_F(RemoteBootstrapTest, AHostThatRefusesTheUserIsRefusedIfTheJobNeedsAllNodes) {
  begin();
  start(kAgent).end(255, "me@h0: Permission denied (publickey).");
  EXPECT_EQ(only_end().end, AgentEnd::kRefused);
  close();
  ends_.clear();
  plan_.spare_nodes = 1;
  begin();
  start(kAgent).end(255, "me@h0: Permission denied (publickey).");
  EXPECT_EQ(only_end().end, AgentEnd::kOther);
}

TEST_F(RemoteBootstrapTest, ABusyHostIsTriedAgain) {
  begin();
  start(kAgent).end(255, "kex_exchange_identification: Connection closed by remote host");
  run_until([this] { return hosts_->starts.size() == 2; });
  EXPECT_THAT(ends_, IsEmpty());
}

TEST_F(RemoteBootstrapTest, AHostThatSaysNothingWithinTheConnectTimeoutIsGivenUp) {
  plan_.remote.connect_timeout = 1ms;
  begin();
  FakeHostShell& shell = start(kAgent);
  run_until([this] { return !ends_.empty(); });
  EXPECT_THAT(only_end().how, HasSubstr("no answer within 0.001 s"));
  EXPECT_TRUE(shell.terminated());
}

TEST_F(RemoteBootstrapTest, AnAgentThatRunsOutOfMemoryAtItsStartIsNamedAsSuch) {
  begin();
  start(kAgent).run_out_of_memory();
  EXPECT_EQ(only_end().end, AgentEnd::kOutOfMemory);
}

TEST_F(RemoteBootstrapTest, AnAgentThatDoesNotSayHowItTalksIsGivenUp) {
  begin();
  FakeHostShell& strange = start(kAgent);
  greet(strange, "control pigeon");
  EXPECT_THAT(only_end().how, HasSubstr("its agent said 'control pigeon'"));
  EXPECT_TRUE(strange.terminated());
  ends_.clear();
  FakeHostShell& silent = start(kElsewhere);
  silent.print(kGreeting);
  silent.end(1, "agent: cannot connect");
  EXPECT_THAT(only_end().how, HasSubstr("cannot talk to its agent: agent: cannot connect"));
}

// ---- Delivery ----

TEST_F(RemoteBootstrapTest, AHostThatLacksTheAgentGetsItAndStartsAgain) {
  begin();
  FakeHostShell& delivery = deliver(kAgent);
  EXPECT_EQ(hosts_->errands[0].missing, HostStart::Missing::kAgent);
  EXPECT_EQ(delivery.input(), "the agent's files");
  EXPECT_TRUE(delivery.input_ended());
  EXPECT_EQ(hosts_->starts.size(), 1U);
  delivery.end(0);
  settle();
  ASSERT_EQ(hosts_->starts.size(), 2U);
  greet(*hosts_->starts[1].shell, "control stdio");
  EXPECT_TRUE(channels_.contains(kAgent));
  EXPECT_THAT(ends_, IsEmpty());
}

TEST_F(RemoteBootstrapTest, ADeliveryThatFailsGivesTheReason) {
  begin();
  deliver(kAgent).end(2, "tar: No space left on device");
  EXPECT_THAT(only_end().how,
              HasSubstr("cannot copy the agent there (ssh ended with 2): tar: No space left on device"));
  EXPECT_EQ(hosts_->starts.size(), 1U);
}

TEST_F(RemoteBootstrapTest, ADeliveryThatTakesTooLongIsStopped) {
  begin();
  hosts_->delivery_limit = 1ms;
  start(kAgent).print("muster-agent absent");
  run_until([this] { return !ends_.empty(); });
  EXPECT_THAT(only_end().how, HasSubstr("cannot copy the agent there in time"));
  EXPECT_TRUE(hosts_->errands.at(0).shell->terminated());
}

TEST_F(RemoteBootstrapTest, AHostIsNotServedTwiceWithAnAgentThatItCannotUse) {
  begin();
  deliver(kAgent).end(0);
  settle();
  hosts_->starts.at(1).shell->print("muster-agent absent");
  EXPECT_THAT(only_end().how, HasSubstr("cannot be used"));
  EXPECT_EQ(hosts_->errands.size(), 1U);
}

// ---- Cancel ----

TEST_F(RemoteBootstrapTest, AnAgentThatIsKilledBeforeItsTurnNeverStarts) {
  plan_.remote.ssh_parallel = 1;
  begin();
  FakeHostShell& first = start(kAgent);
  bootstrap_->start(kElsewhere);
  bootstrap_->kill(kElsewhere);
  EXPECT_EQ(only_end().agent, kElsewhere);
  EXPECT_EQ(only_end().how, "the launcher gave up its agent before it had started");
  greet(first, "control stdio");
  EXPECT_EQ(hosts_->starts.size(), 1U);
}

TEST_F(RemoteBootstrapTest, AnAgentThatIsKilledDuringThePreparationNeverStarts) {
  begin();
  hosts_->hold();
  bootstrap_->start(kAgent);
  settle();
  bootstrap_->kill(kAgent);
  hosts_->release();
  settle();
  EXPECT_THAT(hosts_->starts, IsEmpty());
  EXPECT_EQ(ends_.size(), 1U) << "its end is told once";
}

TEST_F(RemoteBootstrapTest, AShellThatOpensAfterItsAgentWasKilledIsDropped) {
  begin();
  start(kElsewhere);
  hosts_->hold();
  bootstrap_->start(kAgent);
  settle();
  bootstrap_->kill(kAgent);
  hosts_->release();
  settle();
  EXPECT_EQ(hosts_->starts.at(1).shell.use_count(), 1) << "nothing but this test keeps it";
  EXPECT_EQ(hosts_->starts.at(1).shell->input(), "") << "it gets no key";
}

TEST_F(RemoteBootstrapTest, AnAgentThatIsKilledBeforeItGreetsIsGivenUpWithItsShell) {
  begin();
  FakeHostShell& shell = start(kAgent);
  bootstrap_->kill(kAgent);
  EXPECT_TRUE(shell.terminated());
  EXPECT_EQ(only_end().how, "the launcher gave up its agent before it had started");
  EXPECT_THAT(hosts_->kills, IsEmpty());
}

TEST_F(RemoteBootstrapTest, ADeliveryEndsWhenItsAgentIsKilled) {
  begin();
  FakeHostShell& delivery = deliver(kAgent);
  bootstrap_->kill(kAgent);
  EXPECT_TRUE(delivery.terminated());
  EXPECT_EQ(only_end().agent, kAgent);
  EXPECT_EQ(hosts_->starts.size(), 1U);
}

// ---- Kill ----

TEST_F(RemoteBootstrapTest, AnAgentThatHasGreetedIsKilledOnItsHost) {
  begin();
  FakeHostShell& shell = connect(kAgent);
  hosts_->hold();
  bootstrap_->kill(kAgent);
  bootstrap_->kill(kAgent);
  settle();
  EXPECT_THAT(hosts_->kills, ElementsAre(kAgent)) << "once";
  EXPECT_THAT(ends_, IsEmpty()) << "its host has not answered yet";
  hosts_->release();
  EXPECT_EQ(only_end().how, "its agent was killed");
  EXPECT_TRUE(shell.terminated());
}

TEST_F(RemoteBootstrapTest, AHostThatDoesNotAnswerAKillKeepsNobodyWaiting) {
  begin();
  const Warnings warnings;
  connect(kAgent);
  hosts_->answers_kill = false;
  bootstrap_->kill(kAgent);
  EXPECT_EQ(only_end().how, "its agent was killed");
  EXPECT_THAT(warnings.lines(),
              ElementsAre(HasSubstr("host h0 did not answer when the launcher tried to kill its agent")));
}

TEST_F(RemoteBootstrapTest, AKilledAgentThatConnectsIsHungUpOn) {
  begin();
  FakeHostShell& shell = start(kAgent);
  shell.print(kGreeting);
  settle();
  hosts_->hold();
  bootstrap_->kill(kAgent);
  shell.print("control stdio");
  settle();
  EXPECT_THAT(channels_, IsEmpty());
  EXPECT_TRUE(shell.input_ended());
  hosts_->release();
  settle();
}

// Its connection is still open, so the shell's end alone does not tell the agent's.
TEST_F(RemoteBootstrapTest, AKilledAgentThatHadRunOutOfMemoryIsNamedAsSuch) {
  const TlsAgent agent = connect_over_tls(kAgent);
  agent.shell.run_out_of_memory();
  settle();
  EXPECT_THAT(ends_, IsEmpty());
  bootstrap_->kill(kAgent);
  EXPECT_EQ(only_end().end, AgentEnd::kOutOfMemory);
}

// ---- End ----

TEST_F(RemoteBootstrapTest, AnAgentThatLeavesHasNoLeftovers) {
  begin();
  connect(kAgent).end(0, "agent 12:00:00 left");
  EXPECT_EQ(only_end().how, "its agent has ended: ssh ended with 0");
  EXPECT_EQ(only_end().end, AgentEnd::kOther);
  bootstrap_->look_for_leftovers(false);
  settle();
  EXPECT_THAT(hosts_->sweeps, IsEmpty());
  EXPECT_THAT(leftovers_, ElementsAre(IsEmpty()));
}

TEST_F(RemoteBootstrapTest, AnAgentThatFailsGivesTheReason) {
  begin();
  connect(kAgent).end(3, "agent: cannot bind");
  EXPECT_EQ(only_end().how, "its agent has ended: ssh ended with 3: agent: cannot bind");
}

TEST_F(RemoteBootstrapTest, ALineOfItsLogIsNoReasonForAKilledAgent) {
  begin();
  connect(kAgent).end(137, "agent 12:00:00 rank 3 started");
  EXPECT_EQ(only_end().how, "its agent has ended: ssh ended with 137");
}

TEST_F(RemoteBootstrapTest, AnAgentThatRunsOutOfMemoryIsNamedAsSuch) {
  begin();
  connect(kAgent).run_out_of_memory();
  EXPECT_EQ(only_end().end, AgentEnd::kOutOfMemory);
}

// ---- Connections to the control port ----

TEST_F(RemoteBootstrapTest, AnAgentThatCallsIsSpokenToOverTls) {
  const TlsAgent agent = connect_over_tls(kAgent);
  EXPECT_FALSE(bootstrap_->is_through_shell(kAgent));
}

TEST_F(RemoteBootstrapTest, AnAgentOverTlsOutlivesAShellThatFails) {
  const TlsAgent agent = connect_over_tls(kAgent);
  agent.shell.end(255, "client_loop: send disconnect: Broken pipe");
  settle();
  EXPECT_THAT(ends_, IsEmpty());
  channels_.at(kAgent)->close();
  run_until([this] { return !ends_.empty(); });
  EXPECT_EQ(only_end().how,
            "its agent has ended: ssh ended with 255: client_loop: send disconnect: Broken pipe");
}

TEST_F(RemoteBootstrapTest, AConversationThroughAShellMovesToTheConnectionOfItsAgent) {
  plan_.control = Control::kAuto;
  begin(Calls::kFirst);
  const Caller caller = start_caller(kAgent);
  greet(caller.shell, "control stdio");
  ASSERT_TRUE(channels_.contains(kAgent));
  channels_.at(kAgent)->start([](const wire::Frame&) {}, [](const Error&) {});
  const auto connection = call_from(caller);
  std::optional<wire::Frame> heard;
  asio::co_spawn(io_, receive_frame(connection, heard), asio::detached);
  settle();
  channels_.at(kAgent)->send(wire::encode({.destination = NodeId(0),
                                           .source = wire::kLauncher,
                                           .term = Term(1),
                                           .attempt = Attempt(1),
                                           .sequence = Sequence(1)},
                                          wire::Leave{}));
  run_until([&heard] { return heard.has_value(); });
  connection->close();
}

// ---- Leftovers ----

TEST_F(RemoteBootstrapTest, AHostIsAskedWhatAnAgentThatFailedHasLeft) {
  begin();
  connect(kAgent).end(137);
  settle();
  hosts_->left = {{.pid = 7, .name = "python"}};
  bootstrap_->look_for_leftovers(true);
  settle();
  EXPECT_THAT(hosts_->sweeps, ElementsAre(Swept{kAllOfNode0, true}));
  EXPECT_THAT(leftovers_, ElementsAre(ElementsAre(testing::Field(&Leftover::pid, 7))));
}

TEST_F(RemoteBootstrapTest, TheNodesNewerAgentIsNoLeftover) {
  begin();
  connect(kAgent).end(137);
  connect(kSuccessor);
  bootstrap_->look_for_leftovers(true);
  settle();
  EXPECT_THAT(hosts_->sweeps, ElementsAre(Swept{kSuccessor, true}));
}

TEST_F(RemoteBootstrapTest, AnAgentThatIsBeingKilledIsALeftoverItself) {
  begin();
  connect(kAgent);
  hosts_->hold();
  bootstrap_->kill(kAgent);
  settle();
  bootstrap_->look_for_leftovers(false);
  settle();
  EXPECT_THAT(hosts_->sweeps, ElementsAre(Swept{kAllOfNode0, false}));
  hosts_->release();
  settle();
}

TEST_F(RemoteBootstrapTest, AHostThatDoesNotSayWhatIsLeftIsNamedAndKeepsNobodyWaiting) {
  begin();
  const Warnings warnings;
  connect(kAgent).end(137);
  settle();
  hosts_->left.reset();
  bootstrap_->look_for_leftovers(false);
  settle();
  EXPECT_THAT(leftovers_, ElementsAre(IsEmpty()));
  EXPECT_THAT(warnings.lines(), ElementsAre(HasSubstr("host h0 did not say which processes node0 has left")));
}

// ---- Close ----

TEST_F(RemoteBootstrapTest, ClosingTerminatesAllShellsAndThenFinishes) {
  begin();
  FakeHostShell& connected = connect(kAgent);
  FakeHostShell& starting = start(kElsewhere);
  connected.be_stubborn();
  bootstrap_->close();
  settle();
  EXPECT_TRUE(connected.terminated());
  EXPECT_TRUE(starting.terminated());
  EXPECT_FALSE(hosts_->finished) << "one of them has not ended";
  EXPECT_FALSE(bootstrap_->idle());
  connected.end(0);
  settle();
  EXPECT_TRUE(hosts_->finished);
  EXPECT_TRUE(bootstrap_->idle());
  EXPECT_THAT(ends_, IsEmpty());
}

TEST_F(RemoteBootstrapTest, ClosingWaitsNoLongerThanTheKillLimitForAShell) {
  begin();
  connect(kAgent).be_stubborn();
  const TimePoint begun = Clock::now();
  close();
  EXPECT_GE(Clock::now() - begun, RemoteBootstrap::kKillLimit);
}

}  // namespace
}  // namespace muster::launcher
