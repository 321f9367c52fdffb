// The performer with fakes: how it carries out decisions, and which events it passes on.
#include "launcher/io/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "common/base/version.h"
#include "common/wire/agent_identity.h"
#include "tests/hand_time.h"

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;

std::vector<wire::Frame> frames_of(const std::string& bytes) {
  wire::FrameReader reader;
  std::vector<wire::Frame> frames;
  EXPECT_TRUE(reader.feed(bytes, frames));
  return frames;
}

class FakeChannel final : public net::Channel {
 public:
  void start(OnFrame on_frame, OnClosed on_closed) override {
    on_frame_ = std::move(on_frame), on_closed_ = std::move(on_closed);
  }
  void send(std::string_view frames, std::string_view more) override {
    sent_ += frames;
    sent_ += more;
  }
  std::size_t backlog_bytes() const override { return 0; }
  bool closed() const override { return closed_; }
  void close() override { closed_ = true; }

  bool started() const { return on_frame_ != nullptr; }
  void say(NodeId node, Attempt attempt, const wire::ToLauncher& message) {
    sequence_ = sequence_.next();
    for (wire::Frame& frame : frames_of(wire::encode(
             {.source = node, .term = Term(1), .attempt = attempt, .sequence = sequence_}, message)))
      on_frame_(std::move(frame));
  }
  // A frame of unknown type.
  void say_nonsense(NodeId node, Attempt attempt) {
    sequence_ = sequence_.next();
    wire::Frame frame;
    frame.body = wire::Bytes("\xa0");
    frame.header.type = 200;
    frame.header.attempt = attempt;
    frame.header.source = node;
    frame.header.term = Term(1);
    frame.header.sequence = sequence_;
    on_frame_(std::move(frame));
  }
  void break_off(const Error& why) {
    closed_ = true;
    on_closed_(why);
  }
  // All messages sent since the last call.
  template <class Message>
  std::vector<Message> received() {
    std::vector<Message> found;
    for (wire::Frame& frame : frames_of(std::exchange(sent_, {}))) {
      auto message = wire::decode_for_agent(std::move(frame));
      if (const auto* wanted = message ? std::get_if<Message>(&*message) : nullptr) found.push_back(*wanted);
    }
    return found;
  }

 private:
  OnFrame on_frame_;
  OnClosed on_closed_;
  Sequence sequence_;
  std::string sent_;
  bool closed_ = false;
};

class FakeMachines final : public Bootstrap {
 public:
  void listen(Listener& told) override { listener = &told; }
  void start(AgentId agent) override { started.push_back(agent); }
  void kill(AgentId agent) override { killed.push_back(agent); }
  void look_for_leftovers(bool kill) override { listener->leftovers_seen({}, kill); }

  Listener* listener = nullptr;
  std::vector<AgentId> started;
  std::vector<AgentId> killed;
};

class FakeLineage final : public Lineage {
 public:
  void begin_attempt(const BeginAttempt& wish, OnBegun begun, OnDenied) override {
    answer = [wish, begun] { begun({wish.last.next(), 40, wish.question}); };
  }
  void newest_commit(const LookForCheckpoint&, OnFound) override {}

  std::function<void()> answer;
};

class FakeView final : public View {
 public:
  void show(const Decision& decision, Duration) override {
    if (const auto* record = std::get_if<Record>(&decision.action)) events.push_back(record->event);
  }
  void show_progress(std::string_view text) override { progress = text; }
  void show_output(NodeId, const wire::Output& output, Taken taken) override {
    shown_bytes += output.text.view().size();
    if (!taking_from || output.rank == *taking_from) (*taken)(output.text.view().size());
  }
  bool takes(int stream, Duration) const override { return stream == taken_stream; }
  void show_stacks(const wire::WorkerStacks& stacks) override { stack_text = stacks.text; }
  bool wants_usage() const override { return usage_wanted; }
  void show_usage(const std::vector<wire::RankUsage>& shown) override { usage = shown; }
  void show_metrics(Rank rank, std::int64_t step, const std::map<std::string, double>& values) override {
    for (const auto& [name, value] : values)
      metrics.push_back(fmt::format("rank {} step {} {} {}", rank, step, name, value));
  }
  void keep_clock(NodeId, const std::string&, const ClockOffset::Answer& answer) override {
    clocks.push_back(answer.offset_ns);
  }
  void logs_are_elsewhere(NodeId, const std::string&, const std::string& directory) override {
    log_directory = directory;
  }
  void keep_log(NodeId, Attempt attempt, const wire::LogPiece& piece, LogAnswer answer) override {
    kept_log += fmt::format("{}:{}", attempt, piece.text.view());
    answer({.rank = piece.rank, .file = piece.file, .bytes = piece.offset + piece.text.view().size()});
  }
  void agent_closed(NodeId) override { log_directory.clear(); }
  std::string logs_to_come() const override { return log_directory; }

  std::vector<std::string> events;
  std::string progress;
  std::size_t shown_bytes = 0;
  std::optional<Rank> taking_from;  // nullopt: from all
  int taken_stream = 0;
  std::string stack_text;
  bool usage_wanted = false;
  std::vector<wire::RankUsage> usage;
  std::vector<std::string> metrics;
  std::vector<std::int64_t> clocks;
  std::string log_directory;
  std::string kept_log;
};

class FakeInput final : public Input {
 public:
  void read(std::size_t most, OnRead done) override { wanted = most, answer = std::move(done); }
  void come(const std::string& text) { std::exchange(answer, nullptr)(text); }

  std::size_t wanted = 0;
  OnRead answer;
};

Plan one_node() {
  Plan plan;
  plan.nodes = {{NodeId(0), Rank(0), 1}};
  plan.job.checkpoint_directory = "/checkpoints";
  plan.job.output_window_bytes = 4;
  plan.job.limits.silence_limit = 10s;
  plan.job.limits.grace = 1s;
  return plan;
}

class LauncherTest : public testing::Test {
 protected:
  std::shared_ptr<FakeChannel> connect(AgentId agent) {
    auto channel = std::make_shared<FakeChannel>();
    machines.listener->agent_connected(agent, channel);
    return channel;
  }
  void greet() {
    wire::Hello hello;
    hello.version = kVersion;
    channel->say(kNode, Attempt(), hello);
  }
  void say(const wire::ToLauncher& message) { channel->say(kNode, Attempt(1), message); }
  void run() {
    launcher->begin();
    channel = connect(kAgent);
    greet();
    lineage.answer();
    say(wire::AttemptPrepared{4711});
  }

  static constexpr NodeId kNode{0};
  static constexpr AgentId kAgent{kNode, Incarnation(1)};
  HandTime time;
  FakeMachines machines;
  FakeLineage lineage;
  FakeView view;
  bool finished = false;
  std::optional<Launcher> launcher{
      std::in_place, one_node(), Launcher::Parts{time, machines, lineage, view, [this] { finished = true; }}};
  std::shared_ptr<FakeChannel> channel;
};

TEST_F(LauncherTest, RunsAJobFromItsAgentsToItsEnd) {
  run();
  EXPECT_EQ(machines.started, std::vector{kAgent});
  EXPECT_EQ(channel->received<wire::StartWorkers>().size(), 1U);
  say(wire::WorkerExited{});
  say(wire::WorkersGone{});
  EXPECT_EQ(channel->received<wire::Leave>().size(), 1U);
  machines.listener->agent_ended(kAgent, "its agent exited with code 0", AgentEnd::kOther);
  channel->break_off(Error(ErrorCode::kUnavailable, "closed"));
  time.advance(0s);
  EXPECT_TRUE(finished);
  EXPECT_EQ(launcher->controller().job().verdict().exit_code, 0);
  EXPECT_THAT(view.events, testing::ElementsAre("agent_joined", "attempt_begun", "worker_exited",
                                                "attempt_ended", "job_ended"));
}

TEST_F(LauncherTest, ClosesAnUnexpectedChannelWithoutReadingIt) {
  run();
  say(wire::LogsElsewhere{"/logs/job"});
  const auto second = connect(kAgent);
  EXPECT_TRUE(second->closed());
  EXPECT_FALSE(second->started());
  EXPECT_FALSE(channel->closed());
  EXPECT_EQ(view.log_directory, "/logs/job") << "the agent that is heard is not closed";
}

TEST_F(LauncherTest, OutputIsShownAndTheAgentHearsThatItWasTaken) {
  run();
  wire::Output output;
  output.text = wire::Bytes("aaa");
  say(output);
  EXPECT_EQ(view.shown_bytes, 3U);
  EXPECT_EQ(channel->received<wire::OutputTaken>().size(), 1U);
}

// Its line waits behind one of another agent, which is taken.
TEST_F(LauncherTest, AnAgentWithWaitingOutputLearnsThatOtherOutputIsTaken) {
  Plan plan = one_node();
  plan.nodes.push_back({NodeId(1), Rank(1), 1});
  launcher.emplace(plan, Launcher::Parts{time, machines, lineage, view, [this] { finished = true; }});
  launcher->begin();
  channel = connect(kAgent);
  const auto second = connect({NodeId(1), Incarnation(1)});
  view.taking_from = Rank(0);
  wire::Output output;
  output.text = wire::Bytes("aaa");
  say(output);
  output.rank = Rank(1);
  second->say(NodeId(1), Attempt(1), output);
  EXPECT_EQ(channel->received<wire::OutputTaken>().size(), 1U);
  EXPECT_TRUE(second->received<wire::OutputTaken>().empty());
  time.advance(1s);
  EXPECT_TRUE(second->received<wire::OutputTaken>().empty()) << "nobody reads the pipe";
  view.taken_stream = output.stream;
  time.advance(1s);
  const auto told = second->received<wire::OutputTaken>();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].stream, output.stream);
  EXPECT_EQ(told[0].bytes, 0);
  EXPECT_TRUE(channel->received<wire::OutputTaken>().empty()) << "the agent waits for nothing";
}

TEST_F(LauncherTest, LogsAreKeptAndTheAgentHearsHowMuchOfThem) {
  run();
  say(wire::LogsElsewhere{"/logs/job"});
  EXPECT_EQ(view.log_directory, "/logs/job");
  wire::LogPiece piece;
  piece.offset = 4;
  piece.text = wire::Bytes("aaa");
  say(piece);
  EXPECT_EQ(view.kept_log, "1:aaa");
  const auto taken = channel->received<wire::LogTaken>();
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].bytes, 7U);
  say(wire::WorkerExited{});
  say(wire::WorkersGone{});
  time.advance(1s);
  EXPECT_EQ(view.progress, "/logs/job") << "the agent waits for the rest";
  channel->break_off(Error(ErrorCode::kUnavailable, "closed"));
  EXPECT_EQ(view.log_directory, "");
}

TEST_F(LauncherTest, PingsEverySecondAndShowsWhatItWaitsFor) {
  launcher->begin();
  time.advance(1s);
  EXPECT_EQ(view.progress, "starting: 0 of 1 agents joined; waiting for the agent of node0");
  channel = connect(kAgent);
  EXPECT_EQ(channel->received<wire::Ping>().size(), 1U) << "at once";
  time.advance(1s);
  EXPECT_EQ(channel->received<wire::Ping>().size(), 1U);
}

TEST_F(LauncherTest, AgentsLearnWhetherTheOutputOfAnyRankWaits) {
  run();
  for (const bool waits : {true, false}) {
    say(wire::Pong{.output_waits = waits});
    channel->received<wire::Ping>();
    time.advance(1s);
    const auto pings = channel->received<wire::Ping>();
    ASSERT_EQ(pings.size(), 1U);
    EXPECT_EQ(pings[0].output_waits, waits);
  }
}

TEST_F(LauncherTest, RequestsTheRanksResourcesWhileSomebodyWatches) {
  run();
  for (const bool wanted : {false, true}) {
    view.usage_wanted = wanted;
    channel->received<wire::Ping>();
    time.advance(1s);
    const auto pings = channel->received<wire::Ping>();
    ASSERT_EQ(pings.size(), 1U);
    EXPECT_EQ(pings[0].usage, wanted);
  }
  wire::Pong pong;
  pong.usage = {{.rank = Rank(0), .memory_bytes = 12}};
  channel->say(kNode, Attempt(), pong);
  EXPECT_TRUE(view.usage.empty()) << "outside of any attempt";
  say(pong);
  ASSERT_EQ(view.usage.size(), 1U);
  EXPECT_EQ(view.usage[0].memory_bytes, 12);
}

wire::WorkerReported metric(Rank rank, std::int64_t step, double value) {
  wire::WorkerReported report{rank, wire::ReportKind::kMetric, step, ""};
  report.values["val_loss"] = value;
  return report;
}

TEST_F(LauncherTest, MetricsOfTheCurrentAttemptsRanksAreShownAndNothingElseKnowsThem) {
  int told = 0;
  launcher.emplace(one_node(), Launcher::Parts{.time = time,
                                               .bootstrap = machines,
                                               .lineage = lineage,
                                               .view = view,
                                               .finished = [this] { finished = true; },
                                               .witness = [&](const auto&...) { ++told; }});
  run();
  told = 0;
  say(metric(Rank(0), 3, 0.5));
  say(metric(Rank(0), 2, std::numeric_limits<double>::quiet_NaN()));
  channel->say(kNode, Attempt(2), metric(Rank(0), 4, 1));
  say(metric(Rank(1), 4, 1));
  EXPECT_THAT(view.metrics, testing::ElementsAre("rank 0 step 3 val_loss 0.5", "rank 0 step 2 val_loss nan"))
      << "in order; not of another attempt, nor of a rank that the agent does not have";
  EXPECT_EQ(told, 0) << "the journal keeps what the witness is told";
}

TEST_F(LauncherTest, TheClocksOfATracedJobsHostsAreKept) {
  for (const bool traced : {false, true}) {
    Plan plan = one_node();
    plan.job.trace = traced;
    plan.hosts.resize(1);
    launcher.emplace(plan, Launcher::Parts{time, machines, lineage, view, [this] { finished = true; }});
    launcher->begin();
    channel = connect(kAgent);
    for (int i = 0; i < 3; ++i) say(wire::Pong{.sent_ns = to_ns(time.now()), .at_ns = to_ns(time.now()) + 5});
    EXPECT_EQ(channel->received<wire::Ping>().size(), traced ? 4U : 1U)
        << "the first answers are requested at once";
    EXPECT_EQ(view.clocks, traced ? std::vector<std::int64_t>{5} : std::vector<std::int64_t>{});
  }
}

TEST_F(LauncherTest, ASleepThatEndsJustAfterTheLimitIsNotSilence) {
  run();
  time.jump(one_node().job.limits.silence_limit + 500ms);
  EXPECT_TRUE(machines.killed.empty());
  EXPECT_EQ(channel->received<wire::Ping>().size(), 2U);
}

// Messages that arrived meanwhile wait in the channel, and may be read before any alarm.
TEST_F(LauncherTest, ReportsItsSleepBeforeTheMessagesThatFollow) {
  std::vector<Event> told;
  launcher.emplace(one_node(), Launcher::Parts{time, machines, lineage, view, [this] { finished = true; },
                                               [&](const Controller&, const Event& event, TimePoint,
                                                   const Decisions&) { told.push_back(event); }});
  run();
  told.clear();
  const TimePoint before = time.now();
  time.pass(5s);
  say(wire::WorkersStarted{{4}});
  ASSERT_EQ(told.size(), 2U);
  ASSERT_TRUE(std::holds_alternative<SecondPassed>(told[0]));
  EXPECT_EQ(std::get<SecondPassed>(told[0]).due, before + 1s);
  EXPECT_TRUE(std::holds_alternative<AgentSaid>(told[1]));
  told.clear();
  time.advance(0s);
  EXPECT_TRUE(told.empty()) << "the user is told once";
}

TEST_F(LauncherTest, ABrokenConversationKillsTheAgent) {
  run();
  channel->break_off(Error(ErrorCode::kCorrupt, "a frame of 4 GiB"));
  EXPECT_EQ(machines.killed, std::vector{kAgent});
}

TEST_F(LauncherTest, AnUnknownMessageEndsTheConversation) {
  run();
  channel->say_nonsense(kNode, Attempt(1));
  EXPECT_TRUE(channel->closed());
  EXPECT_EQ(machines.killed, std::vector{kAgent}) << "otherwise the job would wait for its messages";
}

TEST_F(LauncherTest, RequestsStacksAndSendsThemToTheCaller) {
  run();
  EXPECT_EQ(launcher->ask_for_stacks(), std::vector{Rank(0)});
  EXPECT_EQ(channel->received<wire::DumpStacks>().size(), 1U);
  say(wire::WorkerStacks{Rank(0), "main"});
  EXPECT_EQ(view.stack_text, "main");
}

TEST_F(LauncherTest, TheNeighboursKeyIsSentButInNoDecision) {
  Plan plan = one_node();
  plan.nodes.push_back({NodeId(1), Rank(1), 1});
  plan.job.limits.memory_tier_bytes = 1 << 30;
  std::vector<wire::StartWorkers> decided;
  const auto witness = [&](const Controller&, const Event&, TimePoint, const Decisions& decisions) {
    for (const Decision& each : decisions) {
      const auto* const send = std::get_if<Send>(&each.action);
      if (const auto* start = send ? std::get_if<wire::StartWorkers>(&send->message) : nullptr)
        decided.push_back(*start);
    }
  };
  launcher.emplace(plan,
                   Launcher::Parts{.time = time,
                                   .bootstrap = machines,
                                   .lineage = lineage,
                                   .view = view,
                                   .finished = [this] { finished = true; },
                                   .witness = witness,
                                   .neighbour_key = [](const std::string& who) { return "of " + who; }});
  launcher->begin();
  channel = connect(kAgent);
  const AgentId other{NodeId(1), Incarnation(1)};
  const auto second = connect(other);
  greet();
  wire::Hello hello;
  hello.version = kVersion;
  hello.node = other.node;
  hello.incarnation = other.incarnation;
  second->say(other.node, Attempt(), hello);
  lineage.answer();
  say(wire::AttemptPrepared{.store_port = 4711, .neighbour_port = 5000});
  second->say(other.node, Attempt(1), wire::AttemptPrepared{.neighbour_port = 5001});
  for (const auto& each : {channel, second}) {
    const auto sent = each->received<wire::StartWorkers>();
    ASSERT_EQ(sent.size(), 1U);
    ASSERT_EQ(sent[0].neighbours.size(), 1U);
    EXPECT_EQ(sent[0].neighbours[0].key, "of " + wire::peer_identity(plan.job.job_id, kAgent, other));
  }
  ASSERT_EQ(decided.size(), 2U);
  for (const wire::StartWorkers& each : decided) {
    ASSERT_EQ(each.neighbours.size(), 1U);
    EXPECT_EQ(each.neighbours[0].key, "");
  }
}

TEST_F(LauncherTest, InputIsReadWhenItsRankRunsAndGoesOnInTheNextAttempt) {
  Plan plan = one_node();
  plan.job.input_rank = Rank(0);
  plan.job.max_restarts = 1;
  FakeInput input;
  launcher.emplace(plan,
                   Launcher::Parts{time, machines, lineage, view, [this] { finished = true; }, {}, &input});
  run();
  EXPECT_FALSE(input.answer) << "nobody reads it yet";
  say(wire::WorkersStarted{{4}});
  ASSERT_TRUE(input.answer);
  input.come("one two");
  const auto first = channel->received<wire::Input>();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].text.view(), "one two");
  EXPECT_FALSE(first[0].end);
  input.come("");
  const auto last = channel->received<wire::Input>();
  ASSERT_EQ(last.size(), 1U);
  EXPECT_TRUE(last[0].end);
  say(wire::InputTaken{7, 4});
  wire::WorkerExited killed;
  killed.signal = 9;
  say(killed);
  say(wire::WorkersGone{});
  lineage.answer();
  time.advance(0s);
  channel->say(kNode, Attempt(2), wire::AttemptPrepared{4711});
  channel->say(kNode, Attempt(2), wire::WorkersStarted{{5}});
  const auto again = channel->received<wire::Input>();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].text.view(), "two");
  EXPECT_TRUE(again[0].end);
}

TEST_F(LauncherTest, ProgressIsShownUntilAllWorkersHaveStarted) {
  run();
  time.advance(1s);
  EXPECT_EQ(view.progress, "starting: 1 of 1 agents joined, 0 of 1 workers started");
  say(wire::WorkersStarted{.pids = {70}});
  time.advance(1s);
  EXPECT_EQ(view.progress, "");
}

TEST_F(LauncherTest, IgnoresAnswersAndChannelsAfterTheEnd) {
  launcher->begin();
  channel = connect(kAgent);
  greet();
  launcher->close();
  EXPECT_TRUE(channel->closed());
  EXPECT_TRUE(connect(kAgent)->closed());
  launcher.reset();
  lineage.answer();
}

}  // namespace
}  // namespace muster::launcher
