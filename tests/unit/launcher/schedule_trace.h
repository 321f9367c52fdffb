// A sweep that a test moves by hand, to compare the scheduler's decisions with those worked out by hand.
//
// For one thread.
#pragma once

#include <cstdint>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "tests/unit/launcher/simulated_sweep.h"

namespace muster::launcher::sweep {

using Scheduler = ScheduleSettings::Kind;

inline ScheduleSettings schedule_of(Scheduler kind, std::int32_t trials, std::int64_t max_steps,
                                    std::int64_t grace_steps) {
  return {.kind = kind,
          .objective = {.metric = "loss"},
          .trials = trials,
          .max_steps = max_steps,
          .grace_steps = grace_steps};
}

// A sweep that a test moves by hand: what a slot gets begins at once, and what a report leads to happens.
class Trace {
 public:
  explicit Trace(ScheduleSettings settings, std::int32_t retries = 0)
      : settings_(std::move(settings)), history_(RetryLimit{retries}) {}

  // "new trial in bracket 0 until 1", "trial 3 until 9", "wait", "over"
  std::string slot(bool points_left = true) {
    const SlotDecision decision = next_for_slot(settings_, history_, points_left);
    if (const auto* created = std::get_if<NewTrial>(&decision.what)) {
      const auto number = static_cast<std::int32_t>(history_.trials().size());
      apply(TrialCreated{.trial = number, .point = {}, .bracket = created->bracket, .reason = ""});
      begin(number, created->until);
    } else if (const auto* next = std::get_if<NextRun>(&decision.what)) {
      begin(next->trial, next->until);
    }
    return told(decision);
  }
  // "go on until 3", "pause", "stop", "take over trial 0"
  std::string report(std::int32_t number, std::int64_t step, double value) {
    apply(Reported{.trial = number, .step = step, .values = {{"loss", value}}});
    const ReportDecision decision = after_report(settings_, history_, number);
    if (std::holds_alternative<Pause>(decision.what)) end(number, RunEnd::kPaused);
    if (std::holds_alternative<Stop>(decision.what)) end(number, RunEnd::kStopped);
    if (const auto* exploit = std::get_if<Exploit>(&decision.what)) {
      end(number, RunEnd::kPaused);
      apply(Exploited{
          .trial = number, .from = exploit->from, .step = trial(exploit->from).newest_step(), .point = {}});
    }
    return told(decision);
  }
  void report_other(std::int32_t number, std::int64_t step, const std::string& metric) {
    apply(Reported{.trial = number, .step = step, .values = {{metric, 0}}});
  }
  std::string decide(std::int32_t number) { return told(after_report(settings_, history_, number)); }
  void end(std::int32_t number, RunEnd end) {
    apply(RunEnded{.trial = number, .run = trial(number).run_count - 1, .end = end});
  }
  void create(int count) {
    for (int i = 0; i < count; ++i) EXPECT_THAT(slot(), testing::HasSubstr("new trial"));
  }
  const Trial& trial(std::int32_t number) { return history_.trials()[static_cast<std::size_t>(number)]; }

 private:
  void begin(std::int32_t number, std::int64_t until) {
    apply(RunBegan{.trial = number, .run = trial(number).run_count, .until = until});
  }
  void apply(const Event& event) {
    const Status applied = history_.apply(event);
    EXPECT_TRUE(applied) << applied.error().message();
  }
  ScheduleSettings settings_;
  History history_;
};

}  // namespace muster::launcher::sweep
