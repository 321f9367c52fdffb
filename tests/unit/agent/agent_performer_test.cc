#include <cerrno>
#include <csignal>
#include <gmock/gmock.h>

#include "common/base/log.h"
#include "tests/unit/agent/agent_parts.h"

namespace muster::agent {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

constexpr NodeId kNode{3};
constexpr Attempt kFirst{1};

// An agent, and the launcher's end of its channel; the test plays everything else.
class AgentPerformerTest : public testing::Test {
 protected:
  void SetUp() override {
    agent_.start({kNode, 1, "host", "1.0", 4});
    wire::JobSpec job;
    job.limits.grace = 3s;
    job.limits.controller_grace = 30s;
    job.limits.silence_limit = 1h;
    job.limits.heartbeat_limit = 30s;
    say(Attempt(), wire::Welcome{kNode, job});
  }
  void say(Attempt attempt, const wire::ToAgent& message) { channel_->say(kNode, attempt, message); }
  // Two workers: ranks 4 and 5 with pids 100 and 101.
  void prepare(Attempt attempt) {
    wire::PrepareAttempt plan;
    plan.first_rank = Rank(4);
    plan.local_world_size = 2;
    say(attempt, plan);
  }
  void run(Attempt attempt) {
    prepare(attempt);
    say(attempt, wire::StartWorkers{});
    asked_.clear();
    channel_->sent.clear();
  }
  void end_worker(LocalRank local_rank, int signal = 0) {
    wire::WorkerExited exited;
    exited.pid = 100 + local_rank.value();
    exited.signal = signal;
    exited.at_ns = to_ns(time_.now());
    processes_.listener->worker_ended(local_rank, exited);
  }
  void end_workers() {
    end_worker(LocalRank(0));
    end_worker(LocalRank(1));
  }
  void report(Attempt attempt, Rank rank, std::string_view type, std::string_view more = "") {
    const auto parsed = parse_report(
        fmt::format(R"({{"v":1,"attempt":{},"rank":{},"type":"{}"{}}})", attempt, rank, type, more));
    processes_.listener->worker_reported(parsed.value(), fmt::format("worker {}", rank));
  }
  template <class Message>
  std::vector<Message> sent() const {
    std::vector<Message> found;
    for (const wire::ToLauncher& message : channel_->sent) {
      if (const auto* wanted = std::get_if<Message>(&message)) found.push_back(*wanted);
    }
    return found;
  }

  HandTime time_;
  std::shared_ptr<HandChannel> channel_ = std::make_shared<HandChannel>();
  Link link_{time_, channel_, kNode};
  Noted asked_;
  HandProcesses processes_{asked_};
  HandTemplate template_{asked_};
  HandLeftovers leftovers_{asked_};
  HandTalk talk_{asked_};
  HandVitals vitals_;
  HandLogs logs_{asked_};
  HandStore store_{asked_};
  HandMpi mpi_{asked_};
  std::optional<Quit> quit_;
  Agent agent_{{time_, link_, processes_, template_, leftovers_, talk_, vitals_, logs_, store_, mpi_},
               [this](const Quit& quit) { quit_ = quit; }};
};

class MpiAgentTest : public AgentPerformerTest {
 protected:
  void SetUp() override {
    agent_.start({kNode, 1, "host", "1.0", 4});
    wire::JobSpec job;
    job.mpi = wire::Mpi::kPmix;
    say(Attempt(), wire::Welcome{kNode, job});
  }
};

class HangLimitAgentTest : public AgentPerformerTest {
 protected:
  void SetUp() override {
    agent_.start({kNode, 1, "host", "1.0", 4});
    wire::JobSpec job;
    job.hang_limit_given = true;
    job.limits.hang_limit = 2s;
    say(Attempt(), wire::Welcome{kNode, job});
  }
};

TEST_F(MpiAgentTest, ServesAnAttemptAndCarriesQuestionsAndAnswers) {
  prepare(kFirst);
  EXPECT_THAT(asked_, ElementsAre("open MPI", "open 1", "open logs"));
  say(kFirst, wire::StartWorkers{});
  mpi_.listener->mpi_asked({.verb = wire::MpiVerb::kFence, .number = 7});
  EXPECT_EQ(sent<wire::MpiAsked>().at(0).number, 7U);
  asked_.clear();
  say(kFirst, wire::MpiTold{.number = 7});
  say(Attempt(2), wire::MpiTold{.number = 8});
  EXPECT_THAT(asked_, ElementsAre("MPI answer 7"));
  mpi_.fault = "called MPI_Abort with 3";
  end_worker(LocalRank(0));
  EXPECT_EQ(sent<wire::WorkerExited>().at(0).mpi_fault, "called MPI_Abort with 3");
  end_worker(LocalRank(1));
  logs_.listener->logs_finished({});
  EXPECT_THAT(asked_, Contains("close MPI"));
}

TEST_F(MpiAgentTest, KillsARankThatHasAborted) {
  prepare(kFirst);
  say(kFirst, wire::StartWorkers{});
  asked_.clear();
  mpi_.listener->mpi_aborted(LocalRank(1));
  EXPECT_THAT(asked_, ElementsAre("signal 9 to 101"));
  end_worker(LocalRank(1));
  asked_.clear();
  mpi_.listener->mpi_aborted(LocalRank(1));
  EXPECT_THAT(asked_, testing::IsEmpty()) << "it has ended";
}

TEST_F(MpiAgentTest, RefusesAnAttemptThatCannotBeServed) {
  mpi_.failure = StartFailure{StartStep::kResources, Error(ErrorCode::kInternal, "cannot load it")};
  prepare(kFirst);
  EXPECT_EQ(sent<wire::AttemptRefused>().at(0).message, "cannot load it");
  EXPECT_THAT(asked_, Contains("close MPI"));
}

TEST_F(AgentPerformerTest, DoesNotCallTheMpiHostInAJobWithoutMpi) {
  run(kFirst);
  end_workers();
  logs_.listener->logs_finished({});
  EXPECT_THAT(asked_, Not(Contains(testing::HasSubstr("MPI"))));
}

TEST_F(AgentPerformerTest, OpensAnAttemptAndStartsItsWorkers) {
  prepare(kFirst);
  ASSERT_EQ(sent<wire::AttemptPrepared>().size(), 1U);
  EXPECT_EQ(sent<wire::AttemptPrepared>()[0].store_port, 1234);
  EXPECT_EQ(sent<wire::AttemptPrepared>()[0].other_checkpoints, "") << "the launcher has not asked";
  say(kFirst, wire::StartWorkers{});
  EXPECT_THAT(asked_, ElementsAre("open 1", "open logs", "start 0", "start 1"));
  ASSERT_EQ(sent<wire::WorkersStarted>().size(), 1U);
  EXPECT_THAT(sent<wire::WorkersStarted>()[0].pids, ElementsAre(100, 101));
}

TEST_F(AgentPerformerTest, WaitsForTheStoreOnAnotherHostBeforeItStartsWorkers) {
  prepare(kFirst);
  say(kFirst, wire::StartWorkers{"10.77.0.10", 4711, {}});
  EXPECT_THAT(asked_, ElementsAre("open 1", "open logs", "reach 10.77.0.10 port 4711"));
  store_.answer({});
  EXPECT_EQ(asked_.back(), "start 1");
  EXPECT_EQ(sent<wire::WorkersStarted>().size(), 1U);
}

TEST_F(AgentPerformerTest, AMissingProgramRefusesTheAttemptAndClosesIt) {
  processes_.failure = {StartStep::kProgram, Error(ErrorCode::kNotFound, "no such program")};
  prepare(kFirst);
  ASSERT_EQ(sent<wire::AttemptRefused>().size(), 1U);
  EXPECT_EQ(sent<wire::AttemptRefused>()[0].exit_code, 127);
  EXPECT_EQ(sent<wire::AttemptRefused>()[0].message, "no such program");
  EXPECT_THAT(asked_, ElementsAre("open 1", "close workers", "close logs", "close store"));
}

TEST_F(AgentPerformerTest, ALogDirectoryThatCannotBeMadeRefusesTheAttempt) {
  logs_.opened = failure(ErrorCode::kPermission, "cannot keep logs");
  prepare(kFirst);
  ASSERT_EQ(sent<wire::AttemptRefused>().size(), 1U);
  EXPECT_EQ(sent<wire::AttemptRefused>()[0].exit_code, 2);
}

TEST_F(AgentPerformerTest, ANearlyFullDiskIsReportedOnlyIfTheAttemptOpens) {
  logs_.opened = std::vector<std::string>{"the log directory has 3 MiB left"};
  store_.port = failure(ErrorCode::kUnavailable, "the port is taken");
  prepare(kFirst);
  EXPECT_THAT(sent<wire::AgentRemark>(), IsEmpty());
  store_.port = 1234;
  prepare(Attempt(2));
  EXPECT_EQ(sent<wire::AgentRemark>().size(), 1U);
}

TEST_F(AgentPerformerTest, InputGoesToTheCurrentAttemptAndAPingChecksHowMuchWasRead) {
  run(kFirst);
  say(kFirst, wire::Input{wire::Bytes("a"), false});
  say(kFirst, wire::Input{wire::Bytes("b"), true});
  EXPECT_THAT(asked_, ElementsAre("input 'a'", "input 'b' end"));
  processes_.listener->input_taken({.written_bytes = 2, .read_bytes = 0});
  processes_.unsaid = {.written_bytes = 2, .read_bytes = 2};
  say(Attempt(), wire::Ping{});
  ASSERT_EQ(sent<wire::InputTaken>().size(), 2U);
  EXPECT_EQ(sent<wire::InputTaken>()[1].read_bytes, 2);
  asked_.clear();
  say(Attempt(2), wire::Input{wire::Bytes("of an attempt that is not there"), false});
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(AgentPerformerTest, LogsAreFinishedBeforeTheNodeIsReportedEmpty) {
  run(kFirst);
  end_workers();
  EXPECT_THAT(asked_, ElementsAre("finish logs"));
  EXPECT_THAT(sent<wire::WorkersGone>(), IsEmpty());
  say(Attempt(), wire::Ping{});
  EXPECT_TRUE(sent<wire::Pong>().at(0).output_waits);
  logs_.listener->logs_finished({.lines = 7});
  ASSERT_EQ(sent<wire::AgentRemark>().size(), 1U);
  EXPECT_EQ(sent<wire::AgentRemark>()[0].text,
            "7 lines were not written to the log files of attempt 1 in time");
  EXPECT_TRUE(std::holds_alternative<wire::WorkersGone>(channel_->sent.back()));
  EXPECT_THAT(asked_, ElementsAre("finish logs", "close workers", "close logs", "keep store"));
}

TEST_F(AgentPerformerTest, LinesThatALogLacksAreNotReportedForAPastAttempt) {
  run(kFirst);
  end_workers();
  logs_.listener->logs_finished({});
  channel_->sent.clear();
  logs_.listener->logs_finished({.lines = 7});
  EXPECT_THAT(channel_->sent, IsEmpty());
}

TEST_F(AgentPerformerTest, LeftoversAreKilledAgainWheneverOneEnds) {
  run(kFirst);
  leftovers_.left = {200, 201};
  end_workers();
  EXPECT_THAT(asked_, ElementsAre("kill 200", "kill 201"));
  leftovers_.left = {202};
  processes_.listener->leftovers_changed();
  leftovers_.left = std::vector<std::int32_t>();
  processes_.listener->leftovers_changed();
  EXPECT_THAT(asked_, ElementsAre("kill 200", "kill 201", "kill 202", "finish logs"));
}

TEST_F(AgentPerformerTest, LeftoversAreLeftAloneWhileWorkersRun) {
  run(kFirst);
  leftovers_.left = {200};
  processes_.listener->leftovers_changed();
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(AgentPerformerTest, AnUnkillableLeftoverIsNamedOnceAndNeverWaitedForAgain) {
  run(kFirst);
  leftovers_.left = {200};
  end_workers();
  time_.advance(Node::kUnkillableLimit);
  ASSERT_EQ(sent<wire::LeftoversUnkillable>().size(), 1U);
  EXPECT_EQ(sent<wire::LeftoversUnkillable>()[0].left.at(0).pid, 200);
  EXPECT_THAT(asked_, Contains("finish logs"));
  logs_.listener->logs_finished({});
  EXPECT_EQ(sent<wire::WorkersGone>().size(), 1U);
  run(Attempt(2));
  end_workers();
  logs_.listener->logs_finished({});
  EXPECT_THAT(asked_, ElementsAre("finish logs", "close workers", "close logs", "keep store"));
  EXPECT_THAT(sent<wire::LeftoversUnkillable>(), IsEmpty());
}

TEST_F(AgentPerformerTest, AProcessThatReusesTheEndedNamedOnesPidIsALeftover) {
  run(kFirst);
  leftovers_.left = {200};
  end_workers();
  time_.advance(Node::kUnkillableLimit);
  logs_.listener->logs_finished({});
  processes_.listener->leftover_ended(200);
  run(Attempt(2));
  end_workers();
  EXPECT_THAT(asked_, ElementsAre("kill 200"));
}

TEST_F(AgentPerformerTest, UnknownLeftoversAreWaitedForAsLongAsUnkillableOnes) {
  run(kFirst);
  leftovers_.left.reset();
  end_workers();
  EXPECT_THAT(asked_, Not(Contains("finish logs")));
  time_.advance(Node::kUnkillableLimit);
  ASSERT_EQ(sent<wire::LeftoversUnkillable>().size(), 1U);
  EXPECT_THAT(sent<wire::LeftoversUnkillable>()[0].left, IsEmpty());
  EXPECT_THAT(asked_, Contains("finish logs"));
  EXPECT_THAT(sent<wire::WorkersGone>(), IsEmpty());
  logs_.listener->logs_finished({});
  EXPECT_EQ(sent<wire::WorkersGone>().size(), 1U);
  // The next attempt's workers, and the processes that they start, are not leftovers.
  run(Attempt(2));
  leftovers_.left = {200};
  processes_.listener->leftovers_changed();
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(AgentPerformerTest, UnknownLeftoversAreLeftToTheGuardian) {
  run(kFirst);
  leftovers_.left.reset();
  end_workers();
  time_.advance(Node::kUnkillableLimit);
  logs_.listener->logs_finished({});
  say(Attempt(), wire::Leave{});
  ASSERT_TRUE(quit_);
  EXPECT_TRUE(quit_->leaves_processes);
}

TEST_F(AgentPerformerTest, AnInvalidMessageIsReportedWithItsFieldAndEndsTheConversation) {
  std::string told;
  log::divert([&told](std::string_view line) { told += line; });
  wire::Frame frame;
  frame.header.type = wire::kFirstToAgent + 3;  // StopWorkers
  frame.header.destination = kNode;
  frame.header.term = Term(1);
  frame.header.attempt = kFirst;
  frame.header.sequence = Sequence(100);
  frame.body = wire::Bytes("\xA1\x66signal\x0F");
  channel_->hear(frame);
  log::divert({});
  EXPECT_THAT(told, testing::AllOf(testing::HasSubstr("error: "), testing::HasSubstr("grace_ns")));
  EXPECT_TRUE(channel_->closed());
}

TEST_F(AgentPerformerTest, ALeftoverThatAppearsWhileLogsAreFinishedIsWaitedFor) {
  run(kFirst);
  end_workers();
  EXPECT_THAT(asked_, ElementsAre("finish logs"));
  leftovers_.left = {200};
  time_.advance(Node::kClearPause);
  logs_.listener->logs_finished({.lines = 7});
  EXPECT_THAT(channel_->sent, testing::Each(testing::VariantWith<wire::WorkerExited>(testing::_)));
  leftovers_.left = std::vector<std::int32_t>();
  processes_.listener->leftovers_changed();
  EXPECT_THAT(asked_, ElementsAre("finish logs", "kill 200", "finish logs"));
  logs_.listener->logs_finished({.lines = 7});
  EXPECT_EQ(sent<wire::AgentRemark>().size(), 1U);
  EXPECT_EQ(sent<wire::WorkersGone>().size(), 1U);
}

TEST_F(AgentPerformerTest, OutputIsHurriedOnceWhenTheWorkersAreStopped) {
  run(kFirst);
  say(kFirst, wire::SignalWorkers{SIGUSR1});
  EXPECT_THAT(asked_, Not(Contains("hurry")));
  say(kFirst, wire::StopWorkers{SIGTERM, Duration(3s).count()});
  say(kFirst, wire::StopWorkers{SIGTERM, Duration(3s).count()});
  time_.advance(3s);
  EXPECT_THAT(asked_, ElementsAre("signal 10 to 100", "signal 10 to 101", "hurry", "signal 15 to 100",
                                  "signal 15 to 101", "signal 9 to 100", "signal 9 to 101"));
}

TEST_F(AgentPerformerTest, LogFilesAreHurriedOnceTheLauncherIsGone) {
  run(kFirst);
  end_workers();
  EXPECT_THAT(asked_, ElementsAre("finish logs"));
  channel_->end();
  EXPECT_THAT(asked_, ElementsAre("finish logs", "hurry"));
  EXPECT_FALSE(quit_);
  logs_.listener->logs_finished({});
  ASSERT_TRUE(quit_);
  EXPECT_EQ(quit_->exit_code, 1);
}

TEST_F(AgentPerformerTest, AnAgentWithItsOwnLogDirectorySaysSoAndLeavesWhenTheLauncherHasTheLogs) {
  EXPECT_TRUE(sent<wire::LogsElsewhere>().empty());
  logs_.place = LogPlace{.directory = "/own", .shared = false};
  logs_.all_sent = false;
  say(Attempt(), wire::Welcome{kNode, {}});
  ASSERT_EQ(sent<wire::LogsElsewhere>().size(), 1U);
  EXPECT_EQ(sent<wire::LogsElsewhere>()[0].directory, "/own");
  say(kFirst, wire::LogTaken{.rank = Rank(4), .bytes = 7});
  EXPECT_THAT(asked_, Contains("7 bytes of attempt 1 taken"));
  say(Attempt(), wire::Leave{});
  EXPECT_FALSE(channel_->closed());
  logs_.listener->logs_sent();
  EXPECT_TRUE(channel_->closed());
}

TEST_F(AgentPerformerTest, AnAgentThatHoldsMemoryOfFailedWorkersLeavesWhenItIsWritten) {
  wire::Welcome welcome{kNode, {}};
  welcome.job.limits.memory_tier_bytes = 1;
  say(Attempt(), welcome);
  run(kFirst);
  end_worker(LocalRank(0), SIGKILL);
  end_worker(LocalRank(1));
  logs_.listener->logs_finished({});
  say(kFirst, wire::Leave{});
  EXPECT_THAT(asked_, Contains("write memory out"));
  EXPECT_FALSE(channel_->closed());
  processes_.listener->memory_written({"step 7 is a checkpoint now", 7});
  ASSERT_EQ(sent<wire::AgentRemark>().size(), 1U);
  EXPECT_TRUE(channel_->closed());
}

TEST_F(AgentPerformerTest, LeavingEndsTheTemplateAndTheStoreAndThenTheChannel) {
  agent_.leave("the agent got signal 15");
  EXPECT_THAT(asked_, ElementsAre("end template", "close store"));
  EXPECT_TRUE(channel_->closed());
  ASSERT_TRUE(quit_);
  EXPECT_EQ(quit_->exit_code, 0);
  EXPECT_FALSE(quit_->leaves_processes);
}

TEST_F(AgentPerformerTest, AnAgentThatLeavesAnUnkillableWorkerStopsServingItsStore) {
  run(kFirst);
  agent_.leave("the agent got signal 15");
  time_.advance(3s + Node::kUnkillableLimit);
  EXPECT_EQ(sent<wire::WorkerUnkillable>().size(), 2U);
  ASSERT_TRUE(quit_);
  EXPECT_EQ(quit_->exit_code, 0);
  EXPECT_TRUE(quit_->leaves_processes);
  EXPECT_THAT(asked_, Contains("close store"));
  asked_.clear();
  end_workers();
  time_.advance(1h);
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(AgentPerformerTest, AWorkersLastReportsAreSentBeforeItsEnd) {
  run(kFirst);
  talk_.waiting = [this] { report(kFirst, Rank(4), "step", R"(,"step":7)"); };
  report(kFirst, Rank(4), "step", R"(,"step":6)");
  end_worker(LocalRank(0), SIGKILL);
  ASSERT_EQ(sent<wire::WorkerReported>().size(), 2U);
  EXPECT_EQ(sent<wire::WorkerReported>()[1].step, 7);
  ASSERT_TRUE(std::holds_alternative<wire::WorkerExited>(channel_->sent.back()));
  const auto exited = sent<wire::WorkerExited>().at(0);
  EXPECT_EQ(exited.rank, Rank(4));
  EXPECT_EQ(exited.signal, SIGKILL);
  EXPECT_THAT(exited.last_lines, ElementsAre("the last line"));
}

TEST_F(AgentPerformerTest, ReportsOfOtherAttemptsAndOtherNodesRanksAreDropped) {
  report(kFirst, Rank(4), "committed");
  EXPECT_THAT(sent<wire::WorkerReported>(), IsEmpty());
  run(kFirst);
  report(Attempt(2), Rank(4), "committed");
  report(kFirst, Rank(6), "committed");
  report(kFirst, Rank(3), "committed");
  EXPECT_THAT(channel_->sent, IsEmpty());
  report(kFirst, Rank(5), "committed");
  EXPECT_EQ(sent<wire::WorkerReported>().size(), 1U);
}

TEST_F(AgentPerformerTest, ARankThatWaitsForItsOutputIsNotSlow) {
  run(kFirst);
  report(kFirst, Rank(4), "step", R"(,"step":1,"busy_ms":5)");
  say(Attempt(), wire::Ping{.output_waits = true});
  report(kFirst, Rank(5), "step", R"(,"step":1,"busy_ms":5)");
  ASSERT_EQ(sent<wire::WorkerReported>().size(), 2U);
  EXPECT_EQ(sent<wire::WorkerReported>()[0].busy_ns, Duration(5ms).count());
  EXPECT_EQ(sent<wire::WorkerReported>()[1].busy_ns, 0);
}

TEST_F(AgentPerformerTest, WhileTheLauncherIsSilentOutputMayWaitElsewhere) {
  run(kFirst);
  say(Attempt(), wire::Ping{});
  report(kFirst, Rank(4), "step", R"(,"step":1,"busy_ms":5)");
  time_.advance(4s);
  report(kFirst, Rank(5), "step", R"(,"step":1,"busy_ms":5)");
  ASSERT_EQ(sent<wire::WorkerReported>().size(), 2U);
  EXPECT_EQ(sent<wire::WorkerReported>()[0].busy_ns, Duration(5ms).count());
  EXPECT_EQ(sent<wire::WorkerReported>()[1].busy_ns, 0);
}

TEST_F(AgentPerformerTest, DoesNotCountAsSilenceThatItWasStoppedItself) {
  run(kFirst);
  time_.jump(2h);
  EXPECT_THAT(asked_, IsEmpty());
  time_.advance(1h + 29s);
  EXPECT_THAT(asked_, IsEmpty());
  time_.advance(1s);
  EXPECT_THAT(asked_, ElementsAre("hurry", "signal 15 to 100", "signal 15 to 101")) << "it is silent";
}

TEST_F(AgentPerformerTest, APongReportsWhatItsWorkersUseIfAsked) {
  say(Attempt(), wire::Ping{.usage = true});
  run(kFirst);
  say(Attempt(), wire::Ping{});
  say(Attempt(), wire::Ping{.usage = true});
  const auto pongs = sent<wire::Pong>();
  ASSERT_EQ(pongs.size(), 2U);
  EXPECT_TRUE(pongs[0].usage.empty()) << "the launcher has not asked";
  ASSERT_EQ(pongs[1].usage.size(), 2U);
  EXPECT_EQ(pongs[1].usage[0].rank, Rank(4));
  EXPECT_EQ(pongs[1].usage[0].memory_bytes, 100) << "of the process";
  EXPECT_EQ(pongs[1].usage[1].rank, Rank(5));
  EXPECT_EQ(pongs[1].usage[1].memory_bytes, 101);
}

TEST_F(AgentPerformerTest, AStoppedWorkerIsReportedOnce) {
  run(kFirst);
  vitals_.states = {{Rank(5), ProcessState::kStopped}};
  time_.advance(20s);
  ASSERT_EQ(sent<wire::WorkerStalled>().size(), 1U);
  EXPECT_EQ(sent<wire::WorkerStalled>()[0].rank, Rank(5));
  EXPECT_TRUE(sent<wire::WorkerStalled>()[0].hard);
}

TEST_F(HangLimitAgentTest, ALimitThatCannotWorkIsMentionedOnceInTheJob) {
  for (const Attempt attempt : {Attempt(1), Attempt(2)}) {
    wire::PrepareAttempt plan;
    plan.local_world_size = 1;
    say(attempt, plan);
    say(attempt, wire::StartWorkers{});
    vitals_.threads = {{Rank(0), {"", {}, "py-spy is not installed"}}};
    time_.advance(1s);
    EXPECT_THAT(vitals_.threads, IsEmpty()) << "the agent has looked";
    EXPECT_EQ(sent<wire::AgentRemark>().size(), 1U);
    end_worker(LocalRank(0));
    logs_.listener->logs_finished({});
  }
}

TEST_F(AgentPerformerTest, ALostGpuIsReportedAndRememberedForTheWorkersEnd) {
  run(kFirst);
  vitals_.faults = {{.gpu = 1, .xid = describe_xid(79)}};
  time_.advance(1s);
  EXPECT_EQ(sent<wire::AgentRemark>().size(), 1U);
  ASSERT_EQ(sent<wire::WorkerStalled>().size(), 1U);
  EXPECT_EQ(sent<wire::WorkerStalled>()[0].rank, Rank(5));
  end_worker(LocalRank(1), SIGKILL);
  EXPECT_THAT(sent<wire::WorkerExited>().at(0).gpu_fault, testing::HasSubstr("(GPU 1)"));
}

TEST_F(AgentPerformerTest, AGpuThatEndsTheLastWorkerIsReportedAsAFaultAndNotAsAStall) {
  run(kFirst);
  end_worker(LocalRank(0), SIGKILL);
  vitals_.faults = {{.gpu = 1, .xid = describe_xid(79)}};
  end_worker(LocalRank(1), SIGKILL);
  ASSERT_EQ(sent<wire::AgentRemark>().size(), 1U);
  EXPECT_THAT(sent<wire::AgentRemark>()[0].text, testing::HasSubstr("rank 5"));
  EXPECT_THAT(sent<wire::WorkerStalled>(), IsEmpty());
}

TEST_F(AgentPerformerTest, ATemplateThatLoadsIsWaitedForAndGivenUpAfterItsLimit) {
  template_.loads = true;
  prepare(kFirst);
  say(kFirst, wire::StartWorkers{});
  EXPECT_THAT(asked_, Not(Contains("start 0")));
  time_.advance(Node::kTemplateLimit);
  EXPECT_THAT(asked_, Contains("give template up: it did not reach init() within 60 s"));
  EXPECT_THAT(asked_, Contains("start 1"));
}

TEST_F(AgentPerformerTest, ASpareLoadsTheTemplateForAPossibleAttempt) {
  wire::StandBy likely;
  likely.local_world_size = 2;
  say(Attempt(), likely);
  EXPECT_THAT(asked_, ElementsAre("load template for 2"));
}

TEST_F(AgentPerformerTest, WaitsForGpuMemoryOfKilledWorkersAndTellsTheUser) {
  vitals_.held = "GPU 1: 70 GiB";
  prepare(kFirst);
  say(kFirst, wire::StartWorkers{});
  time_.advance(1s);
  EXPECT_THAT(asked_, Not(Contains("start 0")));
  ASSERT_EQ(sent<wire::AgentRemark>().size(), 1U);
  EXPECT_THAT(sent<wire::AgentRemark>()[0].text, testing::HasSubstr("GPU 1: 70 GiB"));
  vitals_.held = "";
  time_.advance(1s);
  EXPECT_THAT(asked_, Contains("start 1"));
}

TEST_F(AgentPerformerTest, OnlyCapableWorkersAreAskedForStacksAndGetTheNotice) {
  run(kFirst);
  report(kFirst, Rank(4), "hello", R"(,"text":"stacks")");
  report(kFirst, Rank(5), "hello", R"(,"text":"preemption")");
  say(kFirst, wire::DumpStacks{});
  say(kFirst, wire::Preempt{Duration(10s).count()});
  EXPECT_THAT(asked_,
              ElementsAre("stacks of 4 at 'worker 4'", "stacks of 5 at ''", "preempt worker 5", "hurry"));
  processes_.listener->stacks_dumped({Rank(4), "main"});
  EXPECT_EQ(sent<wire::WorkerStacks>().size(), 1U);
}

}  // namespace
}  // namespace muster::agent
