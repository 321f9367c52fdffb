// A sweep in virtual time: slots, trials that report each step, and failures, all from one seed.
//
// The sweep runs until nothing is left to do. A test looks at the history afterwards, and may look at each
// decision. A trial's checkpoint is its last pause, or a multiple of five steps.
#pragma once

#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "launcher/core/sweep/schedule/schedule.h"

namespace muster::launcher::sweep {

inline std::string told(const SlotDecision& decision) {
  if (const auto* trial = std::get_if<NewTrial>(&decision.what))
    return fmt::format("new trial in bracket {} until {}", trial->bracket, trial->until);
  if (const auto* run = std::get_if<NextRun>(&decision.what))
    return fmt::format("trial {} until {}", run->trial, run->until);
  return std::holds_alternative<Wait>(decision.what) ? "wait" : "over";
}
inline std::string told(const ReportDecision& decision) {
  if (const auto* on = std::get_if<GoOn>(&decision.what)) return fmt::format("go on until {}", on->until);
  if (const auto* from = std::get_if<Exploit>(&decision.what))
    return fmt::format("take over trial {}", from->from);
  return std::holds_alternative<Pause>(decision.what) ? "pause" : "stop";
}

class SimulatedSweep {
 public:
  struct Setup {
    ScheduleSettings settings;
    int slots = 1;
    std::uint64_t seed = 0;
    double failure = 0;  // the probability, at each step, of each kind of end
    std::int32_t retries = 1;
  };
  explicit SimulatedSweep(Setup setup)
      : setup_(std::move(setup)),
        history_(RetryLimit{setup_.retries}),
        rng_(setup_.seed),
        slots_(static_cast<std::size_t>(setup_.slots)) {}

  std::function<void(const SlotDecision&)> on_slot = [](const SlotDecision&) {};
  std::function<void(const ReportDecision&, std::int32_t)> on_report = [](const ReportDecision&,
                                                                          std::int32_t) {};

  const History& history() const { return history_; }
  const Trial& trial(std::int32_t number) const {
    return history_.trials()[static_cast<std::size_t>(number)];
  }
  int steps_made() const { return steps_made_; }

  void run() {
    while (fill_slots()) {
      auto next = slots_.end();
      for (auto each = slots_.begin(); each != slots_.end(); ++each)
        if (each->trial >= 0 && (next == slots_.end() || each->at < next->at)) next = each;
      make_step(*next);
      ASSERT_LT(++steps_made_, 200'000) << "the sweep does not end";
    }
  }

 private:
  struct Worker {
    std::int32_t trial = -1;
    std::int64_t step = 0;
    double at = 0;  // when the next step is done
  };

  void apply(const Event& event) {
    const Status applied = history_.apply(event);
    ASSERT_TRUE(applied) << applied.error().message();
  }

  // False: the sweep is over.
  bool fill_slots() {
    for (Worker& slot : slots_) {
      if (slot.trial >= 0) continue;
      const SlotDecision decision = next_for_slot(setup_.settings, history_, true);
      on_slot(decision);
      if (std::holds_alternative<Over>(decision.what)) return false;
      if (std::holds_alternative<Wait>(decision.what)) return true;
      begin(slot, decision);
    }
    return true;
  }

  void begin(Worker& slot, const SlotDecision& decision) {
    std::int64_t until = 0;
    if (const auto* created = std::get_if<NewTrial>(&decision.what)) {
      slot.trial = static_cast<std::int32_t>(history_.trials().size());
      until = created->until;
      apply(TrialCreated{.trial = slot.trial, .point = {}, .bracket = created->bracket, .reason = ""});
      quality_.push_back(std::uniform_real_distribution<>(0, 1)(rng_));
      checkpoint_.push_back(0);
    } else {
      const auto& next = std::get<NextRun>(decision.what);
      slot.trial = next.trial;
      until = next.until;
    }
    slot.step = checkpoint_[static_cast<std::size_t>(slot.trial)];
    slot.at = now_ + duration();
    apply(RunBegan{.trial = slot.trial, .run = trial(slot.trial).run_count, .until = until});
  }

  double duration() { return std::exponential_distribution<>(1)(rng_) + 0.1; }
  bool happens() { return std::bernoulli_distribution(setup_.failure)(rng_); }

  void end(Worker& slot, RunEnd end) {
    apply(RunEnded{.trial = slot.trial, .run = trial(slot.trial).run_count - 1, .end = end});
    slot.trial = -1;
  }

  void make_step(Worker& slot) {
    now_ = slot.at;
    for (const RunEnd bad : {RunEnd::kFailed, RunEnd::kLost, RunEnd::kInfeasible})
      if (happens()) return end(slot, bad);
    const auto number = static_cast<std::size_t>(slot.trial);
    ++slot.step;
    if (slot.step % 5 == 0) checkpoint_[number] = slot.step;
    const double noise = std::normal_distribution<>(0, 0.1)(rng_);
    const double loss = happens() ? NAN : quality_[number] + noise + 1 / static_cast<double>(slot.step);
    apply(Reported{.trial = slot.trial, .step = slot.step, .values = {{"loss", loss}}});
    const ReportDecision decision = after_report(setup_.settings, history_, slot.trial);
    on_report(decision, slot.trial);
    slot.at = now_ + duration();
    obey(slot, decision);
  }

  void obey(Worker& slot, const ReportDecision& decision) {
    const std::int32_t number = slot.trial;
    if (std::holds_alternative<GoOn>(decision.what)) return;
    if (std::holds_alternative<Stop>(decision.what)) return end(slot, RunEnd::kStopped);
    std::int64_t step = slot.step;
    end(slot, RunEnd::kPaused);
    if (const auto* exploit = std::get_if<Exploit>(&decision.what)) {
      step = checkpoint_[static_cast<std::size_t>(exploit->from)];
      quality_[static_cast<std::size_t>(number)] = quality_[static_cast<std::size_t>(exploit->from)];
      apply(Exploited{.trial = number, .from = exploit->from, .step = step, .point = {}});
    }
    checkpoint_[static_cast<std::size_t>(number)] = step;
  }

  Setup setup_;
  History history_;
  std::mt19937_64 rng_;
  std::vector<Worker> slots_;
  std::vector<double> quality_;
  std::vector<std::int64_t> checkpoint_;
  double now_ = 0;
  int steps_made_ = 0;
};

}  // namespace muster::launcher::sweep
