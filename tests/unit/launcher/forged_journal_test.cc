// Journals that no launcher has written: a replay of any bytes ends with a line about the error, or with a
// different decision.
#include <limits>

#include "common/base/text.h"
#include "launcher/core/journal/event_codec.h"
#include "launcher/core/journal/journal.h"
#include "launcher/core/journal/records.h"
#include "launcher/core/journal/reflection.h"
#include "launcher/core/journal/state.h"
#include "tests/unit/launcher/job_fixture.h"

namespace muster::launcher {
namespace {

using nlohmann::json;

static_assert(enumerator_count<Phase>() == kPhaseCount);
static_assert(name_of_type<Phase>() == "Phase");

// Places in a state (Controller::fields(), Job::fields(), Crew::fields()).
const json::json_pointer kFleetNodes("/0/0");
const json::json_pointer kMinNodes("/1/0/0/0");
const json::json_pointer kPlaces("/1/0/0/1");
const json::json_pointer kPhase("/1/5");
const json::json_pointer kDeadline("/1/6");
const json::json_pointer kMembers("/1/11/0");
const json::json_pointer kHangs("/1/12/12");
const json::json_pointer kInterruptCount("/1/25");

class ForgedJournal : public JobTest {
 protected:
  ForgedJournal() : JobTest(plan()) {
    controller->set_witness(
        [this](const Controller& self, const Event& event, TimePoint at, const Decisions& decisions) {
          states.push_back({state_of(self), events.size() + 1});
          events.emplace_back(event, at);
          entries += journal_entry(event, at, decisions);
        });
  }
  static Plan plan() {
    Plan plan = two_nodes_of_two(2);
    plan.spare_nodes = 1;
    plan.job.job_id = "a-job";
    plan.recovery.time_limit = 3h;
    return plan;
  }
  // Steps, a straggler, a hang with its stacks, a lost node, a notice, a wish to end.
  void live() {
    run();
    for (int rank = 0; rank < 4; ++rank) reported(rank, "hello", 0, "preemption");
    reported(1, "step", 7);
    happen(PaceChanged{Rank(1), true, 9ms, 3ms, 7});
    wire::WorkerStalled stalled;
    stalled.rank = Rank(3);
    stalled.hard = true;
    stalled.what = "has made no step for 9 s";
    stalled.since_ns = to_ns(now);
    said(1, stalled);
    for (int rank = 0; rank < 4; ++rank) said(rank / 2, wire::WorkerStacks{Rank(rank), "main\n"});
    end_agent(1, "its agent was killed by SIGKILL");
    worker_exits(0, 0, SIGTERM, true);
    worker_exits(1, 0, SIGTERM, true);
    empty(0);
    happen(LeftoversSeen{});
    greet(2);
    begin();
    said(0, wire::AttemptPrepared{4711});
    said(2, wire::AttemptPrepared{});
    for (const int node : {0, 2}) said(node, wire::WorkersStarted{{1, 2}});
    happen(SecondPassed{now});
    happen(Interrupted{SIGTERM});
    happen(Interrupted{SIGINT});
    happen(Cancelled{true});
    happen(TimePassed{});
  }
  std::string head() const { return journal_head(plan(), ""); }
  static std::string record(const json& what) {
    std::string bytes;
    append_record(bytes, what);
    return bytes;
  }
  // The error of a journal that begins with this state.
  std::string refusal_of(const json& state) const { return refusal_of(head() + record({{"state", state}})); }
  static std::string refusal_of(const std::string& bytes) {
    const auto replayed = replay(bytes);
    if (replayed) return "";
    EXPECT_EQ(replayed.error().code(), ErrorCode::kCorrupt);
    EXPECT_EQ(replayed.error().message(), one_line(replayed.error().message()));
    return replayed.error().message();
  }
  static std::string entry(const json& fields, std::string_view name, std::int64_t at = 1) {
    return record({{"event", name}, {"fields", fields}, {"at", at}});
  }
  json state_in(Phase phase) const {
    const auto found =
        std::ranges::find_if(states, [&](const auto& each) { return each.first[kPhase] == json(phase); });
    EXPECT_NE(found, states.end()) << static_cast<int>(phase);
    return found == states.end() ? json() : found->first;
  }

  std::vector<std::pair<Event, TimePoint>> events;
  std::vector<std::pair<json, std::size_t>> states;  // and the number of events before it
  std::string entries;
};

void collect_numbers(json& in, std::vector<json*>& found) {
  if (in.is_number()) found.push_back(&in);
  if (!in.is_structured()) return;
  for (json& each : in) collect_numbers(each, found);
}

TEST_F(ForgedJournal, AnyForgedNumberOfAStateIsHandled) {
  live();
  ASSERT_EQ(refusal_of(head() + entries), "") << "as it is";
  std::size_t taken = 0;
  std::size_t refused = 0;
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (i > 0 && i + 1 < states.size() && states[i].first[kPhase] == states[i - 1].first[kPhase] &&
        i % 5 != 0)
      continue;
    auto [state, after] = states[i];
    std::vector<json*> numbers;
    collect_numbers(state, numbers);
    for (json* number : numbers) {
      const json was = *number;
      for (const json& forged :
           {json(was.get<std::int64_t>() + 1), json(0), json(-1),
            json(std::numeric_limits<std::int32_t>::max()), json(std::numeric_limits<std::int64_t>::min()),
            json(std::numeric_limits<std::uint64_t>::max())}) {
        *number = forged;
        Controller again(plan(), "");
        if (const Status restored = restore(again, state); !restored) {
          EXPECT_EQ(restored.error().code(), ErrorCode::kCorrupt);
          ++refused;
          continue;
        }
        ++taken;
        for (std::size_t next = after; next < events.size(); ++next) {
          for (const Decision& decision : again.apply(events[next].first, events[next].second))
            EXPECT_FALSE(text_of(decision).empty());
        }
      }
      *number = was;
    }
  }
  EXPECT_GT(taken, 1000U);
  EXPECT_GT(refused, 1000U);
}

TEST_F(ForgedJournal, AStateThatContradictsItselfIsRefused) {
  live();
  json state = state_in(Phase::kRunning);
  state[kPhase] = 9;
  EXPECT_THAT(refusal_of(state), HasSubstr("9 is not a Phase"));
  for (const Phase phase : {Phase::kDumping, Phase::kPreempting, Phase::kStopping, Phase::kLeaving}) {
    state = state_in(Phase::kRunning);
    state[kPhase] = phase;
    EXPECT_THAT(refusal_of(state), HasSubstr("a Job cannot have these fields")) << "nothing is due";
  }
  state = state_in(Phase::kStopping);
  state[kDeadline] = nullptr;
  EXPECT_THAT(refusal_of(state), HasSubstr("a Job cannot have these fields"));
  state = state_in(Phase::kRunning);
  ASSERT_EQ(state[kHangs], false);
  state[kHangs] = true;
  EXPECT_THAT(refusal_of(state), HasSubstr("a Job cannot have these fields")) << "no rank stalls";
  state = state_in(Phase::kPreparing);
  state[kMembers] = json::array();
  EXPECT_THAT(refusal_of(state), HasSubstr("a Job cannot have these fields")) << "nobody prepares";
  state = state_in(Phase::kRunning);
  state[kMembers][1][2] = 0;
  EXPECT_THAT(refusal_of(state), HasSubstr("a Crew cannot have these fields")) << "no worker";
  state = state_in(Phase::kRunning);
  state[kFleetNodes].erase(1);
  EXPECT_THAT(refusal_of(state), HasSubstr("a Job cannot have these fields"))
      << "node1 has its own ranks in the plan";
  state = state_in(Phase::kRunning);
  state[kInterruptCount] = std::numeric_limits<std::int32_t>::min();
  EXPECT_THAT(refusal_of(state), HasSubstr("a Job cannot have these fields"));
  state = state_in(Phase::kGathering);
  ASSERT_EQ(state[kPlaces].size(), 2U);
  state[kPlaces].erase(1);
  state[kMinNodes] = 1;
  EXPECT_THAT(refusal_of(state), HasSubstr("a Job cannot have these fields"))
      << "of three nodes, one is a spare";
  state = state_in(Phase::kRunning);
  state.erase(1);
  EXPECT_THAT(refusal_of(state), HasSubstr("a state of another version, or a damaged one"));
  EXPECT_EQ(refusal_of(state_in(Phase::kRunning)), "");
}

TEST_F(ForgedJournal, AnImpossiblePlanIsRefused) {
  const auto refusal_with = [](auto change) {
    Plan plan = ForgedJournal::plan();
    change(plan);
    return refusal_of(journal_head(plan, ""));
  };
  EXPECT_EQ(refusal_with([](Plan&) {}), "");
  EXPECT_THAT(refusal_with([](Plan& plan) { plan.nodes.clear(); }), HasSubstr("nodes: the list is empty"));
  EXPECT_THAT(refusal_with([](Plan& plan) { plan.spare_nodes = 2'000'000'000; }), HasSubstr("--spare-nodes"));
  EXPECT_THAT(refusal_with([](Plan& plan) { plan.spare_nodes = -1; }), HasSubstr("spare_nodes: -1"));
  EXPECT_THAT(refusal_with([](Plan& plan) { plan.min_nodes = 3; }), HasSubstr("min_nodes: 3"));
  EXPECT_THAT(refusal_with([](Plan& plan) { plan.nodes[0].worker_count = 0; }), HasSubstr("no room"));
  EXPECT_THAT(refusal_with([](Plan& plan) { plan.nodes[1].first_rank = Rank(3); }), HasSubstr("node 1"));
  EXPECT_THAT(refusal_with([](Plan& plan) {
                for (NodePlan& each : plan.nodes) each.worker_count = 2'000'000'000;
              }),
              HasSubstr("exceed the limit of 100000 workers"));
  EXPECT_THAT(refusal_with([](Plan& plan) { plan.job.limits.grace = -1s; }), HasSubstr("grace: -1000000000"));
  EXPECT_THAT(refusal_with([](Plan& plan) { plan.job.limits.silence_limit = 0s; }),
              HasSubstr("silence-limit: 0"));
  EXPECT_THAT(refusal_with([](Plan& plan) { plan.recovery.time_limit = 100'000h; }),
              HasSubstr("time_limit: "));
  EXPECT_THAT(refusal_with([](Plan& plan) { plan.recovery.restart_delay = Duration::max(); }),
              HasSubstr("30 years"));
  EXPECT_THAT(refusal_with([](Plan& plan) { plan.job.max_restarts = -1; }), HasSubstr("max_restarts"));
}

TEST_F(ForgedJournal, AnImpossibleEventIsRefusedWithItsNumber) {
  const std::string began = entry(json::object(), "Began");
  EXPECT_EQ(refusal_of(head() + began), "");
  EXPECT_THAT(refusal_of(head() + entry({{"signal", 2}}, "Interrupted")),
              HasSubstr("event 1: the job has not begun"));
  const std::string nothing = head() + entry({{"signal", 0}}, "NoEvent\x1b[2J");
  EXPECT_THAT(refusal_of(nothing), HasSubstr("event 1: unknown event 'NoEvent'"));
  live();
  EXPECT_THAT(refusal_of(head() + entries + began), HasSubstr("the job has already begun"));
  EXPECT_THAT(refusal_of(head() + entries + record({{"state", states.back().first}})),
              HasSubstr("a state in the middle of the events"));
  const std::int64_t later = to_ns(now) + 1;
  EXPECT_THAT(refusal_of(head() + entries + entry({{"due", later}}, "SecondPassed", later - 1)),
              HasSubstr("it is not due"));
  EXPECT_THAT(
      refusal_of(head() + entries + entry({{"due", -900'000'000'000'000'000}}, "SecondPassed", later)),
      HasSubstr("slept for over"));
  EXPECT_THAT(refusal_of(head() + entries +
                         entry(json::object(), "TimePassed", std::numeric_limits<std::int64_t>::max())),
              HasSubstr("30 years"));
  EXPECT_THAT(refusal_of(head() + entries +
                         entry({{"attempt", 3}, {"resume_step", std::uint64_t{1} << 63}, {"question", 1}},
                               "AttemptBegun")),
              HasSubstr("is not a step"));
}

TEST_F(ForgedJournal, ItsTextsCannotControlATerminal) {
  const std::string bytes =
      head() +
      record({{"event", "Began"}, {"fields", json::object()}, {"at", 1}, {"decisions", {"\x1b[2J\nnow:"}}});
  const auto replayed = replay(bytes);
  ASSERT_TRUE(replayed) << replayed.error().message();
  EXPECT_THAT(replay_as_text(*replayed), HasSubstr("recorded:\n  ?[2J?now:\nnow:\n"));
}

}  // namespace
}  // namespace muster::launcher
