#include "launcher/core/journal/journal.h"

#include "launcher/core/journal/event_codec.h"
#include "launcher/core/journal/records.h"
#include "launcher/core/journal/state.h"
#include "tests/unit/launcher/job_fixture.h"

namespace muster::launcher {
namespace {

using testing::Not;

Plan plan_with_a_token() {
  Plan plan = two_nodes_of_two(1);
  plan.job.job_id = "a-job";
  plan.job.command = {"train", "--lr", "0.1"};
  plan.job.environment["TOKEN"] = "secret-of-the-user";
  plan.job.inherited["NCCL_TOKEN"] = "secret-of-the-user";
  plan.recovery.time_limit = 3h;
  return plan;
}

// A job with a journal.
class JournalTest : public JobTest {
 protected:
  explicit JournalTest(const Plan& plan = plan_with_a_token())
      : JobTest(plan), bytes(journal_head(plan, "")) {
    controller->set_witness(
        [this, plan](const Controller& self, const Event& event, TimePoint at, const Decisions& decisions) {
          bytes += journal_entry(event, at, decisions);
          ++count;
          states.push_back(journal_head(plan, "") + journal_state(self));
          state_ends.push_back(bytes.size());
        });
  }
  // A worker fails, the other worker of its node does not stop, the job restarts and succeeds.
  void fail_and_succeed() {
    run();
    said(0, wire::WorkersStarted{{11, 12}});
    reported(0, "hello", 0, "preemption");
    for (int step = 1; step <= 50; ++step) {
      now += 100ms;
      for (int rank = 0; rank < 4; ++rank) reported(rank, "step", step);
    }
    worker_exits(2, 3);
    said(1, wire::WorkerUnkillable{Rank(3), 14, "has not ended 3 s after SIGKILL"});
    worker_exits(3, 0, SIGKILL, true);
    worker_exits(0, 0, SIGTERM, true);
    worker_exits(1, 0, SIGTERM, true);
    empty_all();
    begin();
    start_workers();
    for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0);
    empty_all();
    agents_leave();
    ASSERT_EQ(job.verdict().exit_code, 0);
  }

  std::string bytes;
  std::uint64_t count = 0;
  std::vector<std::string> states;  // a journal that begins after each event
  std::vector<std::size_t> state_ends;
};

TEST_F(JournalTest, LeadsToTheSameDecisionsAgain) {
  fail_and_succeed();
  const auto again = replay(bytes);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_FALSE(again->first_difference) << replay_as_text(*again);
  EXPECT_EQ(again->event_count, count);
  EXPECT_GT(again->decision_count, 20U);
  EXPECT_FALSE(again->torn);
  EXPECT_THAT(replay_as_text(*again), HasSubstr("decisions: the same\n"));
}

TEST_F(JournalTest, ContinuesFromTheStateAfterAnyEvent) {
  fail_and_succeed();
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto again = replay(states[i] + bytes.substr(state_ends[i]));
    ASSERT_TRUE(again) << "after event " << i + 1 << ": " << again.error().message();
    ASSERT_FALSE(again->first_difference) << "after event " << i + 1 << ": " << replay_as_text(*again);
    ASSERT_EQ(again->event_count, count - i - 1);
  }
}

class GrowingJournalTest : public JournalTest {
 protected:
  static Plan plan() {
    Plan plan = plan_with_a_token();
    plan.min_nodes = 1;
    plan.max_nodes = 3;
    return plan;
  }
  GrowingJournalTest() : JournalTest(plan()) {}
};

TEST_F(GrowingJournalTest, KeepsTheNodesThatWereAdded) {
  run();
  happen(NodesAdded{{{"h2", 3}}, true});
  greet(2);
  reported(0, "committed", 10);
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0, SIGTERM, true);
  empty_all();
  begin();
  ASSERT_EQ(job.crew().members().size(), 3U);
  Controller restored(plan(), "");
  ASSERT_TRUE(restore(restored, state_of(*controller)));
  EXPECT_EQ(restored.job().names().of(NodeId(2)), "node2 (h2)");
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto again = replay(states[i] + bytes.substr(state_ends[i]));
    ASSERT_TRUE(again) << "after event " << i + 1 << ": " << again.error().message();
    ASSERT_FALSE(again->first_difference) << "after event " << i + 1 << ": " << replay_as_text(*again);
  }
}

TEST_F(JournalTest, KeepsWhenAnAgentBeganToEnd) {
  run();
  happen(ConnectionClosed{agent(1), connection_of(agent(1))});
  Controller again(plan_with_a_token(), "");
  ASSERT_TRUE(restore(again, state_of(*controller)));
  now += 500ms;
  const Event ended = ProcessEnded{agent(1), "its agent was killed by SIGKILL"};
  again.apply(ended, now);
  happen(ended);
  EXPECT_EQ(state_of(again).at(0), state_of(*controller).at(0)) << "of the fleet";
}

TEST_F(JournalTest, KeepsTheKindOfAnAgentsEnd) {
  for (const AgentEnd end : {AgentEnd::kOther, AgentEnd::kRefused, AgentEnd::kOutOfMemory}) {
    const Event event = ProcessEnded{{NodeId(1), Incarnation(1)}, "no GPU driver", end};
    const auto again = event_from(to_record(event));
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(std::get<ProcessEnded>(*again).end, end);
  }
  // As older versions wrote it, without a third kind.
  for (const bool refused : {false, true}) {
    auto record = to_record(ProcessEnded{{NodeId(1), Incarnation(1)}, "no GPU driver", AgentEnd::kOther});
    record["fields"].erase("end");
    record["fields"]["refused"] = refused;
    const auto again = event_from(record);
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(std::get<ProcessEnded>(*again).end, refused ? AgentEnd::kRefused : AgentEnd::kOther);
  }
}

class ContainerJournalTest : public JournalTest {
 protected:
  static Plan plan() {
    Plan plan = plan_with_a_token();
    plan.hosts = {{.name = "h0", .slots = 2}, {.name = "h1", .slots = 2}};
    plan.remote.container.image = "train:1";
    return plan;
  }
  ContainerJournalTest() : JournalTest(plan()) {}
};

TEST_F(ContainerJournalTest, KnowsThatTheHostsRunContainers) {
  happen(Began{});
  happen(ConnectionClosed{agent(1), connection_of(agent(1))});
  happen(ProcessEnded{agent(1), "no GPU driver", AgentEnd::kRefused});
  happen(LeftoversSeen{});
  now += 1s;
  happen(TimePassed{});
  ASSERT_EQ(job.verdict().cause, "node1 (h1): no GPU driver");
  const auto again = replay(bytes);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_FALSE(again->first_difference) << replay_as_text(*again);
}

TEST_F(JournalTest, ReportsTheFirstEventWithADifferentDecision) {
  fail_and_succeed();
  // As if the job had no restarts: the event that led to the restart is the first difference.
  Plan other = plan_with_a_token();
  other.job.max_restarts = 0;
  const std::size_t head = journal_head(plan_with_a_token(), "").size();
  const auto differs = replay(journal_head(other, "") + bytes.substr(head));
  ASSERT_TRUE(differs) << differs.error().message();
  ASSERT_TRUE(differs->first_difference);
  EXPECT_LT(differs->first_difference->event, count);
  EXPECT_THAT(replay_as_text(*differs),
              HasSubstr(fmt::format("first difference: event {} (", differs->first_difference->event)));
  EXPECT_NE(differs->first_difference->recorded, differs->first_difference->replayed);
  EXPECT_THAT(replay_as_json(*differs), HasSubstr("\"same\": false"));
}

TEST_F(JournalTest, EndsBeforeTheTornRecordOfAKilledLauncher) {
  fail_and_succeed();
  const auto again = replay(std::string_view(bytes).substr(0, bytes.size() - 1));
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_FALSE(again->first_difference);
  EXPECT_TRUE(again->torn);
  EXPECT_EQ(again->event_count, count - 1);
}

TEST_F(JournalTest, DoesNotContainTheUsersEnvironment) {
  fail_and_succeed();
  EXPECT_THAT(bytes, Not(HasSubstr("secret-of-the-user")));
  EXPECT_THAT(bytes, Not(HasSubstr("TOKEN")));
  EXPECT_THAT(bytes, HasSubstr("--lr"));
}

TEST_F(JournalTest, HasOneStepPerSecondAndRankAndTheLast) {
  fail_and_succeed();
  std::vector<std::int64_t> steps;
  auto reader = RecordReader::open(bytes);
  for (auto record = reader->next(); record && *record; record = reader->next()) {
    const auto event = event_from(**record);
    const auto* said = event ? std::get_if<AgentSaid>(&*event) : nullptr;
    const auto* report = said ? std::get_if<wire::WorkerReported>(&said->message) : nullptr;
    if (report != nullptr && report->kind == wire::ReportKind::kStep && report->rank == Rank(2))
      steps.push_back(report->step);
  }
  ASSERT_FALSE(steps.empty());
  EXPECT_LE(steps.size(), 6U) << "50 steps in 5 s";
  EXPECT_EQ(steps.back(), 50) << "the last step before the rank failed";
}

TEST(Replay, RefusesFilesThatAreNotJournals) {
  for (const std::string bytes : {"", "{}", "muster journal 1\n", "muster journal 1\nxxxxxxxxxxxxxxxxx"}) {
    const auto refused = replay(bytes);
    ASSERT_FALSE(refused) << bytes;
    EXPECT_EQ(refused.error().code(), ErrorCode::kCorrupt);
  }
}

}  // namespace
}  // namespace muster::launcher
