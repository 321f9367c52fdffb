#include "runtime/checkpoint/save_policy.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace muster {

namespace {

// Rank 0 estimates how many steps are left until the next save. After this share of these steps, it looks at
// its clock again. If it did not, the save would be late when the steps become slower.
constexpr double kAhead = 0.5;

}  // namespace

Seconds mean_time_between_failures(Seconds expected, int failures, Seconds observed) {
  return (expected + observed) / (1 + failures);
}

Seconds SaveInterval::interval() const {
  if (fixed_) return *fixed_;
  // Young's formula gives the time between two saves that costs least. But a save cannot begin before the
  // previous one has been committed.
  const Seconds young(std::sqrt(2 * held_up_.count() * between_failures_.count()));
  return std::max(young, until_committed_);
}

SaveInterval::Look SaveInterval::look(std::int64_t step, TimePoint now) {
  if (!last_save_) last_save_ = now;
  const std::int64_t steps = step - step_of_last_look_;
  const Seconds a_step =
      last_look_ && steps > 0 ? Seconds(now - *last_look_) / static_cast<double>(steps) : Seconds(0);
  last_look_ = now;
  step_of_last_look_ = step;
  const Seconds left = interval() - Seconds(now - *last_save_);
  if (left <= a_step / 2) {
    last_save_ = now;
    return {.saves = true, .next_step = step + 1};
  }
  if (a_step <= Seconds(0)) return {.saves = false, .next_step = step + 1};
  const double ahead = left / a_step;
  const double steps_ahead = ahead > 4 ? ahead * kAhead : std::round(ahead);
  return {.saves = false,
          .next_step = step + std::max<std::int64_t>(static_cast<std::int64_t>(steps_ahead), 1)};
}

void SaveInterval::saved(TimePoint when, Seconds held_up, Seconds until_committed) {
  last_save_ = when;
  held_up_ = held_up;
  until_committed_ = until_committed;
}

std::optional<std::string> SaveInterval::explanation() {
  if (fixed_ || (explained_ && std::abs(interval() / *explained_ - 1) < 0.25)) return std::nullopt;
  explained_ = interval();
  return fmt::format(
      "a checkpoint every {:.0f} s: sqrt(2 x {:.3f} s that a save holds training up x {:.0f} s between failures), "
      "and at least the {:.1f} s until one is committed",
      interval().count(), held_up_.count(), between_failures_.count(), until_committed_.count());
}

bool FailedSaves::repeats(const std::string& cause) {
  if (count_ == 0 || cause != cause_) return false;
  ++count_;
  return true;
}

void FailedSaves::begin(std::int64_t step, std::string cause) {
  count_ = 1;
  first_step_ = step;
  cause_ = std::move(cause);
}

std::optional<std::string> FailedSaves::end() {
  const int count = std::exchange(count_, 0);
  if (count < 2) return std::nullopt;
  return fmt::format("{} saves failed, from step {} on: {}", count, first_step_, cause_);
}

SavePolicy::Questions SavePolicy::on(const StepDone& event) {
  ++steps_;
  is_due_by_clock_ = false;
  leaves_ = false;
  return {.stop = event.is_preemption_noticed && !has_tried_to_leave_,
          .prepare = !std::exchange(is_prepared_, true),
          .clock = setting_.interval && steps_ >= next_look_};
}

SavePolicy::StopNews SavePolicy::on(const StopHeard& event) {
  if (!event.step) return {};
  const bool is_new = !std::exchange(knows_stop_, true);
  if (*event.step > steps_) return {.is_new = is_new};
  has_tried_to_leave_ = true;
  leaves_ = *event.step == steps_;
  return {.is_new = is_new, .is_missed = *event.step < steps_};
}

void SavePolicy::on(const ClockHeard& event) {
  is_due_by_clock_ = event.look.saves;
  next_look_ = event.look.next_step;
}

SaveDecision SavePolicy::after_step() {
  using enum SaveDecision::Action;
  if (leaves_) return {.action = kSave, .reason = "all ranks stop after this step", .leaves = true};
  if (setting_.every > 0 && steps_ % setting_.every == 0)
    return {.action = kSave, .reason = "it is a multiple of .every"};
  if (is_due_by_clock_) return {.action = kSave, .reason = "rank 0's clock says so"};
  if (setting_.memory_every == 0) return {};
  const bool is_first = !std::exchange(is_memory_prepared_, true);
  if (steps_ % setting_.memory_every == 0)
    return {.action = kHoldInMemory, .reason = "it is a multiple of .memory_every"};
  return is_first ? SaveDecision{.action = kPrepareMemory,
                                 .reason = "memory taken now does not hold up the first copy"}
                  : SaveDecision{};
}

SaveDecision SavePolicy::on_request() const {
  using enum SaveDecision::Action;
  if (last_tried_ != steps_) return {.action = kSave, .reason = "the program asks for it"};
  // With one of these error codes, rank 0 has told the failure to all ranks. So all ranks try again together.
  const bool all_know = !outcome_ && (outcome_.error().code() == ErrorCode::kUnavailable ||
                                      outcome_.error().code() == ErrorCode::kCorrupt);
  return all_know
             ? SaveDecision{.action = kSave,
                            .reason = "this step's save failed on all ranks, and the program asks again"}
             : SaveDecision{.action = kNothing,
                            .reason = "it is saved already, or this rank does not know how its save ended"};
}

std::string SavePolicy::on(const SaveBegun& /*event*/, TimePoint now) {
  begun_ = now;
  is_prepared_ = true;
  tries_ = last_tried_ == steps_ ? tries_ + 1 : 1;
  last_tried_ = steps_;
  return fmt::format("{}/{}", name_of_step("save"), tries_);
}

void SavePolicy::on(const StateCopied& /*event*/, TimePoint now) {
  held_up_ = now - begun_;
}

void SavePolicy::on(const SaveEnded& event) {
  outcome_ = event.outcome;
  if (outcome_) {
    newest_committed_ = last_tried_;
    is_refusing_ = false;
    if (setting_.interval) setting_.interval->saved(begun_, held_up_, event.when - begun_);
  } else if (outcome_.error().code() == ErrorCode::kCorrupt) {
    is_refusing_ = true;
  }
}

SavePolicy::Leaving SavePolicy::leaving() const {
  if (outcome_) return Leaving::kLeaves;
  return outcome_.error().code() == ErrorCode::kCorrupt ? Leaving::kRefused : Leaving::kGoesOn;
}

std::string SavePolicy::on(const RestoreBegun& /*event*/) {
  outcome_ = {};
  return fmt::format("restore/{}", ++restores_);
}

void SavePolicy::on(const RestoreEnded& event) {
  setting_.unread.reset();
  steps_ = event.step;
  last_tried_ = newest_committed_ = event.is_on_disk ? std::optional(steps_) : std::nullopt;
}

std::string SavePolicy::name_of_step(std::string_view purpose) const {
  return fmt::format("{}/{}/{}", purpose, restores_, steps_);
}

}  // namespace muster
