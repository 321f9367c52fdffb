#include "launcher/core/sweep/history/history.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace muster::launcher::sweep {
namespace {

using nlohmann::ordered_json;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string line_of(const Event& event) {
  return event_as_json(event).dump();
}

// All of these events must fit.
History history_of(const std::vector<Event>& events, RetryLimit limit = {}) {
  History history(limit);
  for (const Event& event : events) {
    const auto applied = history.apply(event);
    EXPECT_TRUE(applied) << applied.error().message();
  }
  return history;
}

RunEnded ended(std::int32_t run, RunEnd end, std::string text = "") {
  return {.trial = 0, .run = run, .end = end, .text = std::move(text), .at = 9.5};
}

const std::vector<Event> kOneRunning = {TrialCreated{.point = {{"lr", 0.1}}}, RunBegan{.until = 10}};

std::vector<Event> with(std::vector<Event> events, const std::vector<Event>& more) {
  events.insert(events.end(), more.begin(), more.end());
  return events;
}

// ---- The fold ----

TEST(SweepHistory, FollowsATrialFromItsBeginToItsEnd) {
  History history = history_of({TrialCreated{.trial = 0, .point = {{"lr", 0.1}}, .bracket = 2}});
  const Trial& trial = history.trials()[0];
  EXPECT_EQ(trial.state, TrialState::kWaiting);
  EXPECT_EQ(trial.bracket, 2);
  EXPECT_EQ(trial.newest_step(), -1);

  ASSERT_TRUE(history.apply(RunBegan{.until = 10}));
  EXPECT_EQ(history.trials()[0].state, TrialState::kRunning);
  EXPECT_EQ(history.running_count(), 1U);
  ASSERT_TRUE(history.apply(Reported{.step = 10, .values = {{"loss", 3.0}}, .at = 2.5}));
  ASSERT_TRUE(history.apply(ended(0, RunEnd::kPaused, "at its rung")));
  EXPECT_EQ(history.trials()[0].state, TrialState::kPaused);
  EXPECT_EQ(history.running_count(), 0U);

  ASSERT_TRUE(history.apply(RunBegan{.run = 1, .until = 30}));
  EXPECT_EQ(history.trials()[0].until, 30);
  ASSERT_TRUE(history.apply(ended(1, RunEnd::kFinished, "ended with 0")));
  const Trial& over = history.trials()[0];
  EXPECT_EQ(over.state, TrialState::kFinished);
  EXPECT_TRUE(over.is_over());
  EXPECT_EQ(over.run_count, 2);
  EXPECT_EQ(over.text, "ended with 0");
  EXPECT_EQ(over.began_at, 2.5);
  EXPECT_EQ(over.ended_at, 9.5);
}

TEST(SweepHistory, EachEndLeadsToItsState) {
  const std::vector<std::pair<RunEnd, TrialState>> cases = {
      {RunEnd::kFinished, TrialState::kFinished}, {RunEnd::kPaused, TrialState::kPaused},
      {RunEnd::kStopped, TrialState::kStopped},   {RunEnd::kInfeasible, TrialState::kInfeasible},
      {RunEnd::kFailed, TrialState::kFailed},     {RunEnd::kLost, TrialState::kWaiting},
      {RunEnd::kCancelled, TrialState::kWaiting}};
  for (const auto& [end, state] : cases) {
    const History history = history_of(with(kOneRunning, {ended(0, end)}));
    EXPECT_EQ(history.trials()[0].state, state);
    const bool is_over = state != TrialState::kPaused && state != TrialState::kWaiting;
    EXPECT_EQ(history.trials()[0].is_over(), is_over);
  }
}

TEST(SweepHistory, OnlyFailuresUseUpRetries) {
  History history =
      history_of(with(kOneRunning, {ended(0, RunEnd::kLost), RunBegan{.run = 1}, ended(1, RunEnd::kFailed),
                                    RunBegan{.run = 2}, ended(2, RunEnd::kLost), RunBegan{.run = 3}}),
                 {.retries = 1});
  EXPECT_EQ(history.trials()[0].failure_count, 1);
  ASSERT_TRUE(history.apply(ended(3, RunEnd::kFailed)));
  EXPECT_EQ(history.trials()[0].state, TrialState::kFailed);
  EXPECT_EQ(history.trials()[0].failure_count, 2);
}

TEST(SweepHistory, FindsMeasurementsByMetricAndStep) {
  const History history =
      history_of(with(kOneRunning, {Reported{.step = 1, .values = {{"loss", 5.0}, {"acc", 0.1}}},
                                    Reported{.step = 4, .values = {{"loss", 3.0}}},
                                    Reported{.step = 8, .values = {{"loss", 2.0}}},
                                    // After a restart from the checkpoint of step 4.
                                    Reported{.step = 6, .values = {{"loss", 2.5}}}}));
  const Trial& trial = history.trials()[0];
  EXPECT_EQ(trial.newest_step(), 8);
  EXPECT_EQ(trial.newest("loss"), 2.0);
  EXPECT_EQ(trial.newest("acc"), 0.1);
  EXPECT_EQ(trial.newest("other"), std::nullopt);
  EXPECT_EQ(trial.value_at("loss", 0), 5.0);
  EXPECT_EQ(trial.value_at("loss", 4), 3.0);
  EXPECT_EQ(trial.value_at("loss", 5), 2.5);
  EXPECT_EQ(trial.value_at("loss", 9), std::nullopt);
  EXPECT_EQ(trial.value_at("acc", 2), std::nullopt);
}

TEST(SweepHistory, CountsOnAfterAPause) {
  History history =
      history_of(with(kOneRunning, {TrialCreated{.trial = 1}, Reported{.step = 3, .values = {{"loss", 1}}}}));
  const auto counts_from = [&history](const Event& end, int run) {
    EXPECT_TRUE(history.apply(end));
    EXPECT_TRUE(history.apply(RunBegan{.run = run}));
    return history.trials()[0].counts_from;
  };
  EXPECT_EQ(history.trials()[0].counts_from, -1);
  EXPECT_EQ(counts_from(ended(0, RunEnd::kPaused), 1), 3);
  ASSERT_TRUE(history.apply(Reported{.step = 4, .values = {{"loss", 1}}}));
  EXPECT_EQ(counts_from(ended(1, RunEnd::kLost), 2), 3) << "it may go on from the checkpoint of its pause";
  ASSERT_TRUE(history.apply(Exploited{.trial = 0, .from = 1, .step = 9}));
  EXPECT_EQ(counts_from(ended(2, RunEnd::kPaused), 3), 9) << "the step of the checkpoint taken over";
}

TEST(SweepHistory, AnExploitChangesThePoint) {
  const Exploited exploited{.trial = 0, .from = 1, .step = 20, .point = {{"lr", 0.3}}};
  const History history =
      history_of({TrialCreated{.point = {{"lr", 0.1}}}, TrialCreated{.trial = 1, .point = {{"lr", 0.2}}},
                  RunBegan{}, exploited});
  EXPECT_EQ(history.trials()[0].point, (Point{{"lr", 0.3}}));
  EXPECT_EQ(history.trials()[0].state, TrialState::kRunning);
  ASSERT_EQ(history.trials()[0].exploits.size(), 1U);
  EXPECT_EQ(history.trials()[0].exploits[0].from, 1);
  EXPECT_EQ(history.trials()[1].point, (Point{{"lr", 0.2}}));
}

std::string losses_of(const Trial& trial) {
  std::string text;
  const auto found = trial.measured.find("loss");
  if (found == trial.measured.end()) return text;
  for (const Measurement& each : found->second) text += fmt::format("{}:{} ", each.step, each.value);
  return text;
}

// The program did three more steps when it was told to end, and the other trial's checkpoint is older.
TEST(SweepHistory, AnExploitForgetsTheValuesAfterItsStep) {
  const auto loss = [](std::int64_t step, double value) {
    return Reported{.step = step, .values = {{"loss", value}}};
  };
  History history =
      history_of(with(kOneRunning, {TrialCreated{.trial = 1}, loss(1, 9), loss(2, 8), loss(3, 7), loss(4, 6),
                                    Reported{.step = 4, .values = {{"time", 5}}}, ended(0, RunEnd::kPaused),
                                    Exploited{.trial = 0, .from = 1, .step = 3}, RunBegan{.run = 1}}));
  const Trial& trial = history.trials()[0];
  EXPECT_EQ(losses_of(trial), "1:9 2:8 3:7 ");
  EXPECT_EQ(trial.newest("time"), std::nullopt);
  EXPECT_EQ(trial.newest_step(), 3);
  ASSERT_TRUE(history.apply(loss(3, 1)));
  EXPECT_EQ(losses_of(history.trials()[0]), "1:9 2:8 3:1 ") << "it goes on from step 2";
  ASSERT_TRUE(history.apply(ended(1, RunEnd::kPaused)));
  ASSERT_TRUE(history.apply(Exploited{.trial = 0, .from = 1, .step = 0}));
  EXPECT_EQ(history.trials()[0].newest_step(), -1);
  EXPECT_EQ(history.trials()[0].reached_step(), 0);
  ASSERT_TRUE(history.apply(RunBegan{.run = 2}));
  ASSERT_TRUE(history.apply(loss(1, 2)));
  EXPECT_EQ(losses_of(history.trials()[0]), "1:2 ");
}

std::string dump_of(const History& history) {
  std::string text;
  for (const Trial& trial : history.trials()) {
    text += fmt::format("{} {} {} {} {} {}\n", trial.number, name_of(trial.state), trial.run_count,
                        trial.newest_step(), point_as_json(trial.point).dump(), trial.exploits.size());
  }
  return text;
}

TEST(SweepHistory, RefusesAnEventThatCannotFollowAndStaysAsItIs) {
  const std::vector<Event> before =
      with(kOneRunning, {TrialCreated{.trial = 1}, TrialCreated{.trial = 2}, RunBegan{.trial = 2},
                         RunEnded{.trial = 2, .end = RunEnd::kStopped}});
  const std::vector<std::pair<Event, std::string>> cases = {
      {TrialCreated{.trial = 4}, "trial 4: created, but the next trial is number 3"},
      {TrialCreated{.trial = 1}, "trial 1: created, but the next trial is number 3"},
      {TrialCreated{.trial = 3, .bracket = -1}, "trial 3: created in bracket -1"},
      {RunBegan{.trial = 3}, "trial 3: was not created"},
      {RunBegan{.trial = -1}, "trial -1: was not created"},
      {RunBegan{.trial = 0, .run = 1}, "trial 0: run 1 began, but the trial is running"},
      {RunBegan{.trial = 2, .run = 1}, "trial 2: run 1 began, but the trial is stopped"},
      {RunBegan{.trial = 1, .run = 1}, "trial 1: run 1 began, but the next run is number 0"},
      {RunBegan{.trial = 1, .until = -5}, "trial 1: run 0 began until step -5"},
      {Reported{.trial = 1, .step = 3}, "trial 1: reported step 3, but is waiting"},
      {Reported{.trial = 7, .step = 3}, "trial 7: was not created"},
      {Reported{.trial = 0, .step = -1}, "trial 0: reported step -1"},
      {Reported{.trial = 0, .step = 1, .at = kInfinity}, "trial 0: reported at inf s"},
      {RunEnded{.trial = 1}, "trial 1: run 0 ended, but the trial is waiting after 0 runs"},
      {RunEnded{.trial = 0, .run = 1}, "trial 0: run 1 ended, but the trial is running after 1 runs"},
      {RunEnded{.trial = 2}, "trial 2: run 0 ended, but the trial is stopped after 1 runs"},
      {RunEnded{.trial = 0, .at = std::nan("")}, "trial 0: run 0 ended at nan s"},
      {Exploited{.trial = 0, .from = 0}, "trial 0: took over itself"},
      {Exploited{.trial = 0, .from = 9}, "trial 9: was not created"},
      {Exploited{.trial = 9, .from = 0}, "trial 9: was not created"},
      {Exploited{.trial = 2, .from = 0}, "trial 2: took over trial 0, but is stopped"},
      {Exploited{.trial = 0, .from = 1, .step = -2}, "trial 0: took over step -2 of trial 1"},
  };
  History history = history_of(before);
  const std::string untouched = dump_of(history);
  for (const auto& [event, message] : cases) {
    const auto applied = history.apply(event);
    ASSERT_FALSE(applied) << message;
    EXPECT_EQ(applied.error().message(), message);
    EXPECT_EQ(applied.error().code(), ErrorCode::kCorrupt);
    EXPECT_EQ(dump_of(history), untouched);
  }
}

// ---- JSON ----

TEST(SweepEvents, AreWrittenWithTheirNames) {
  EXPECT_EQ(line_of(TrialCreated{
                .trial = 3, .point = {{"lr", 0.1}, {"n", std::int64_t{2}}}, .bracket = 1, .reason = "grid"}),
            R"({"event":"trial_created","trial":3,"point":{"lr":0.1,"n":2},"bracket":1,"reason":"grid"})");
  EXPECT_EQ(
      line_of(RunBegan{
          .trial = 3, .run = 1, .until = 81, .place = "node2 GPU 0,1", .reason = "promoted", .at = 2.5}),
      R"({"event":"run_began","trial":3,"run":1,"until":81,"place":"node2 GPU 0,1","reason":"promoted","at":2.5})");
  EXPECT_EQ(line_of(Reported{.trial = 3, .step = 9, .values = {{"loss", 0.5}, {"acc", 1}}, .at = 1.25}),
            R"({"event":"reported","trial":3,"step":9,"values":{"acc":1.0,"loss":0.5},"at":1.25})");
  EXPECT_EQ(
      line_of(RunEnded{.trial = 3, .run = 1, .end = RunEnd::kInfeasible, .text = "out of memory", .at = 2}),
      R"({"event":"run_ended","trial":3,"run":1,"end":"infeasible","text":"out of memory","at":2.0})");
  EXPECT_EQ(line_of(Exploited{.trial = 3, .from = 4, .step = 7, .point = {{"lr", 1.0}}, .reason = "r"}),
            R"({"event":"exploited","trial":3,"from":4,"step":7,"point":{"lr":1.0},"reason":"r"})");
}

TEST(SweepEvents, KnowTheirTime) {
  EXPECT_EQ(time_of(RunBegan{.at = 3}), 3);
  EXPECT_EQ(time_of(Reported{.at = 4}), 4);
  EXPECT_EQ(time_of(RunEnded{.at = 5}), 5);
  EXPECT_EQ(time_of(TrialCreated{}), 0);
}

TEST(SweepEvents, KeepNanAndInfinities) {
  const Event event =
      Reported{.step = 1, .values = {{"a", std::nan("")}, {"b", kInfinity}, {"c", -kInfinity}, {"d", -0.0}}};
  const std::string text = line_of(event);
  EXPECT_EQ(
      text,
      R"({"event":"reported","trial":0,"step":1,"values":{"a":"nan","b":"inf","c":"-inf","d":-0.0},"at":0.0})");
  const auto read = event_from_json(ordered_json::parse(text));
  ASSERT_TRUE(read) << read.error().message();
  const auto& values = std::get<Reported>(*read).values;
  EXPECT_TRUE(std::isnan(values.at("a")));
  EXPECT_EQ(values.at("b"), kInfinity);
  EXPECT_EQ(values.at("c"), -kInfinity);
  EXPECT_TRUE(std::signbit(values.at("d")));
}

TEST(SweepEvents, RealNumbersReadBackExactly) {
  std::mt19937_64 random(43);
  for (int i = 0; i < 2000; ++i) {
    const double number = std::bit_cast<double>(random());
    if (!std::isfinite(number)) continue;
    const Event event = Exploited{.trial = 1, .point = {{"x", number}}};
    const auto read = event_from_json(ordered_json::parse(line_of(event)));
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(std::get<Exploited>(*read).point, std::get<Exploited>(event).point);
  }
}

TEST(SweepEvents, ReadBackAsTheyWere) {
  std::vector<Event> events = {
      TrialCreated{.trial = 3, .point = {{"a", true}, {"b", std::string("x")}}, .bracket = 1, .reason = "r"},
      RunBegan{.trial = 3, .run = 2, .until = 1LL << 40, .place = "p", .reason = "é"},
      Exploited{.trial = 3, .from = 1, .step = 5, .point = {{"a", std::int64_t{1}}}, .reason = "r"}};
  for (const RunEnd end : {RunEnd::kFinished, RunEnd::kPaused, RunEnd::kStopped, RunEnd::kInfeasible,
                           RunEnd::kFailed, RunEnd::kLost, RunEnd::kCancelled}) {
    events.push_back(RunEnded{.trial = 3, .run = 2, .end = end, .text = "t", .at = 0.1});
  }
  for (const Event& event : events) {
    const auto read = event_from_json(ordered_json::parse(line_of(event)));
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(line_of(*read), line_of(event));
  }
}

TEST(SweepEvents, ErrorsNameTheMember) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"([])", "expected an object with an event's name as its member `event`"},
      {R"({"event": 1})", "expected an object with an event's name as its member `event`"},
      {R"({"event": "exploded"})", "unknown event `exploded`"},
      {R"({"event": "run_began", "trial": 1})", "run_began: run: is missing"},
      {R"({"event": "run_began", "trial": 1.5})", "run_began: trial: expected a whole number"},
      {R"({"event": "run_began", "trial": 2147483648})", "run_began: trial: expected a whole number"},
      {R"({"event": "trial_created", "trial": 1, "point": {"lr": [1]}})",
       "trial_created: point: lr: expected a number, a word, true or false"},
      {R"({"event": "reported", "trial": 1, "step": 1, "values": {"loss": "NaN"}})",
       "reported: values: loss: expected a number, \"nan\", \"inf\" or \"-inf\""},
      {R"({"event": "reported", "trial": 1, "step": 1, "values": []})",
       "reported: values: expected an object of numbers by metric"},
      {R"({"event": "run_ended", "trial": 1, "run": 0, "end": "gone"})",
       "run_ended: end: unknown end `gone`"},
      {R"({"event": "run_ended", "trial": 1, "run": 0, "end": "lost", "text": 3})",
       "run_ended: text: expected a text"},
  };
  for (const auto& [text, message] : cases) {
    const auto event = event_from_json(ordered_json::parse(text));
    ASSERT_FALSE(event) << text;
    EXPECT_EQ(event.error().message(), message);
    EXPECT_EQ(event.error().code(), ErrorCode::kCorrupt);
  }
}

}  // namespace
}  // namespace muster::launcher::sweep
