#include "launcher/core/sweep/sweep.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"

namespace muster::launcher::sweep {

namespace {

// A run of a trial may be lost. If this many runs in a row are lost without a new report, the last one counts
// as failed.
constexpr int kMostLosses = 3;

// A worker's last line may have any bytes; journal and --json need UTF-8.
std::string in_utf8(std::string text) {
  if (is_utf8(text)) return text;
  std::ranges::replace_if(text, [](char letter) { return static_cast<unsigned char>(letter) >= 0x80; }, '?');
  return text;
}

}  // namespace

Status Sweep::replay(const Event& event) {
  if (Status applied = history_.apply(event); !applied) return applied;
  if (const auto* reported = std::get_if<Reported>(&event)) note_wish(reported->trial);
  if (const auto* ended = std::get_if<RunEnded>(&event)) wishes_.erase(ended->trial);
  if (std::holds_alternative<Exploited>(event)) ++exploit_count_;
  return {};
}

void Sweep::add(SweepDecisions& all, Event event) {
  const Status applied = history_.apply(event);
  CHECK(applied.has_value(), "{}", applied.error().message());
  all.events.push_back(std::move(event));
}

const Trial& Sweep::at(std::int32_t trial) const {
  return history_.trials().at(static_cast<std::size_t>(trial));
}

// A trial that has reported max_steps counts as finished, even if the scheduler ended its run. Because it is
// finished, the trial can keep its last checkpoint.
bool Sweep::has_all_steps(const Trial& trial) const {
  const std::int64_t most = settings_.schedule.max_steps;
  return most > 0 && trial.newest_step() >= most;
}

SweepDecisions Sweep::add_slot(std::int32_t slot, std::string place, double when,
                               std::vector<std::string> hosts) {
  when_ = when;
  if (std::exchange(lacks_hosts_, false)) over_ = false;
  slots_[slot] = {.place = std::move(place), .hosts = std::move(hosts)};
  SweepDecisions all;
  fill_slots(all);
  return all;
}

bool Sweep::set_aside(const std::string& host) {
  lost_hosts_.insert(host);
  bool any = false;
  for (auto& [slot, place] : slots_) {
    if (std::ranges::find(place.hosts, host) == place.hosts.end()) continue;
    any = std::exchange(place.usable, false) || any;
  }
  return any;
}

std::set<std::string> Sweep::taken_hosts() const {
  std::set<std::string> taken = lost_hosts_;
  for (const auto& [slot, place] : slots_) {
    if (place.usable || place.trial) taken.insert(place.hosts.begin(), place.hosts.end());
  }
  return taken;
}

std::size_t Sweep::usable_count() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(slots_, [](const auto& each) { return each.second.usable; }));
}

// Adds those values of the report that the trial has not reported before. Returns false if there are none.
bool Sweep::add_report(SweepDecisions& all, Reported report) {
  const Trial& trial = at(report.trial);
  std::erase_if(report.values, [&](const auto& value) {
    return trial.has_value(value.first, report.step) && !trial.old_metrics.contains(value.first);
  });
  if (report.values.empty()) return false;
  losses_.erase(report.trial);
  add(all, std::move(report));
  return true;
}

// Notes what the scheduler decides after the newest report of the trial. If it has already decided to end the
// trial's run, this does nothing.
void Sweep::note_wish(std::int32_t trial) {
  if (wishes_.contains(trial)) return;
  ReportDecision decision = after_report(settings_.schedule, history_, trial);
  if (!std::holds_alternative<GoOn>(decision.what)) wishes_.emplace(trial, std::move(decision));
}

std::optional<ReportDecision> Sweep::take_wish(std::int32_t trial) {
  auto found = wishes_.extract(trial);
  return found ? std::optional(std::move(found.mapped())) : std::nullopt;
}

SweepDecisions Sweep::on_found(std::int32_t trial, std::int64_t step, std::map<std::string, double> values,
                               double when) {
  SweepDecisions all;
  if (add_report(all, {.trial = trial, .step = step, .values = std::move(values), .at = when}))
    note_wish(trial);
  return all;
}

SweepDecisions Sweep::on_report(std::int32_t slot, std::int64_t step, std::map<std::string, double> values,
                                double when) {
  const auto trial = slots_.at(slot).trial;
  if (!trial) return {};
  const bool ending = wishes_.contains(*trial);
  SweepDecisions all = on_found(*trial, step, std::move(values), when);
  const auto wish = wishes_.find(*trial);
  if (ending || wish == wishes_.end()) return all;
  const bool saves = end_by(wish->second, *trial) != RunEnd::kStopped;
  all.actions.emplace_back(EndRun{.slot = slot, .save = saves, .reason = wish->second.reason});
  return all;
}

// The trial has finished. If it has reported a value of the objective's metric, returns "". Otherwise returns
// a text that says that there is no such value. The text also names the metrics that the trial has reported,
// because the program may use another name for the metric.
std::string Sweep::missing_metric(const Trial& trial) const {
  const std::string& metric = settings_.schedule.objective.metric;
  if (trial.newest(metric)) return "";
  std::string others;
  for (const auto& [name, values] : trial.measured)
    others += (others.empty() ? "; it reported " : ", ") + name;
  return "reported no value of " + metric + others;
}

// Returns how a run ends if the scheduler has decided to end it.
RunEnd Sweep::end_by(const ReportDecision& wish, std::int32_t trial) const {
  if (!std::holds_alternative<Stop>(wish.what)) return RunEnd::kPaused;
  return has_all_steps(at(trial)) ? RunEnd::kFinished : RunEnd::kStopped;
}

void Sweep::add_end(SweepDecisions& all, RunEnded ended, const std::optional<ReportDecision>& wish) {
  const std::int32_t number = ended.trial;
  if (ended.end == RunEnd::kFinished) ended.text = missing_metric(at(number));
  const bool paused = ended.end == RunEnd::kPaused;
  add(all, std::move(ended));
  const auto* exploit = wish && paused ? std::get_if<Exploit>(&wish->what) : nullptr;
  if (exploit == nullptr) return;
  const Trial& donor = at(exploit->from);
  add(all, Exploited{.trial = number,
                     .from = exploit->from,
                     .step = donor.reached_step(),
                     .point = perturbed(settings_.space, donor.point, settings_.search.seed, exploit_count_),
                     .reason = wish->reason});
  ++exploit_count_;
}

bool Sweep::is_lost_too_often(std::int32_t trial, RunEnd end) {
  if (end == RunEnd::kLost && ++losses_[trial] < kMostLosses) return false;
  losses_.erase(trial);
  return end == RunEnd::kLost;
}

SweepDecisions Sweep::on_end(std::int32_t slot, RunEnd end, std::string text, double when) {
  Slot& place = slots_.at(slot);
  CHECK(place.trial.has_value(), "slot {}", slot);
  when_ = when;
  const std::int32_t trial = *std::exchange(place.trial, std::nullopt);
  // Counts the lost runs of the trial. A run on a host that was set aside does not count. Such runs need no
  // limit: each of them takes a host away, and at last no host is left.
  if (place.usable && is_lost_too_often(trial, end)) {
    end = RunEnd::kFailed;
    text = fmt::format("lost {} times in a row without a new report: {}", kMostLosses, text);
  }
  SweepDecisions all = end_run(trial, end, std::move(text), when);
  fill_slots(all);
  return all;
}

SweepDecisions Sweep::on_lost(std::int32_t trial, bool finished, double when) {
  return end_run(trial, finished ? RunEnd::kFinished : RunEnd::kLost, "its controller was gone", when);
}

// Two things can end a run: what happened to it (`end`), and an earlier decision of the scheduler. This
// function stores the first of these that applies:
// - If the point is infeasible, it stores `end`.
// - If the program has finished, and the scheduler did not want to pause it, it stores `end`.
// - If the scheduler had decided to end the run, it stores that decision, even if the node was lost or the
//   program failed first. A program that finishes at the step of its pause counts as paused, and may still be
//   promoted.
// - Otherwise it stores `end`.
SweepDecisions Sweep::end_run(std::int32_t trial, RunEnd end, std::string text, double when) {
  SweepDecisions all;
  const auto wish = take_wish(trial);
  const bool paused_itself = wish && std::holds_alternative<Pause>(wish->what);
  const bool by_itself = end == RunEnd::kInfeasible || (end == RunEnd::kFinished && !paused_itself);
  if (wish && !by_itself) {
    end = end_by(*wish, trial);
    text = wish->reason;
  } else if (end == RunEnd::kCancelled && !stopped_for_.empty()) {
    text = stopped_for_;
  }
  add_end(all,
          {.trial = trial,
           .run = at(trial).run_count - 1,
           .end = end,
           .text = in_utf8(std::move(text)),
           .at = when},
          wish);
  return all;
}

SweepDecisions Sweep::cancel(std::string reason) {
  SweepDecisions all;
  stopped_for_ = std::move(reason);
  if (!std::exchange(cancelled_, true)) {
    for (const auto& [slot, place] : slots_) {
      if (place.trial && !wishes_.contains(*place.trial))
        all.actions.emplace_back(EndRun{.slot = slot, .save = true, .reason = stopped_for_});
    }
  }
  fill_slots(all);
  return all;
}

SweepDecisions Sweep::drain(std::string reason) {
  SweepDecisions all;
  if (stopped_for_.empty()) stopped_for_ = std::move(reason);
  fill_slots(all);
  return all;
}

// When a run has ended, its slot is free. The scheduler may now be able to use other free slots, too.
void Sweep::fill_slots(SweepDecisions& all) {
  std::string reason = stopped_for_;
  if (stopped_for_.empty()) {
    for (auto& [slot, place] : slots_) {
      if (place.usable && !place.trial && !fill(slot, all)) break;
    }
  }
  const bool runs =
      std::ranges::any_of(slots_, [](const auto& each) { return each.second.trial.has_value(); });
  if (runs || over_) return;
  if (stopped_for_.empty()) {
    const SlotDecision last = next_for_slot(settings_.schedule, history_, points_left_);
    lacks_hosts_ = !std::holds_alternative<Over>(last.what) && !std::holds_alternative<Wait>(last.what);
    reason = lacks_hosts_ ? "no host is left" : last.reason;
  }
  over_ = true;
  all.actions.emplace_back(SweepOver{reason});
}

// Starts the next trial or run in this slot. Returns false if the slot has to stay empty for now.
bool Sweep::fill(std::int32_t slot, SweepDecisions& all) {
  const SlotDecision decision = next_for_slot(settings_.schedule, history_, points_left_);
  if (const auto* wanted = std::get_if<NewTrial>(&decision.what)) {
    if (create_trial(slot, *wanted, decision.reason, all)) return true;
    points_left_ = false;
    return fill(slot, all);
  }
  const auto* next = std::get_if<NextRun>(&decision.what);
  if (next == nullptr) return false;
  start_run(slot, next->trial, next->until, decision.reason, all);
  return true;
}

bool Sweep::create_trial(std::int32_t slot, const NewTrial& wanted, const std::string& reason,
                         SweepDecisions& all) {
  auto suggestion = suggest(settings_.search, settings_.space, history_);
  if (!suggestion) return false;
  const auto number = static_cast<std::int32_t>(history_.trials().size());
  add(all, TrialCreated{.trial = number,
                        .point = std::move(suggestion->point),
                        .bracket = wanted.bracket,
                        .reason = std::move(suggestion->reason)});
  start_run(slot, number, wanted.until, reason, all);
  return true;
}

void Sweep::start_run(std::int32_t slot, std::int32_t number, std::int64_t until, std::string reason,
                      SweepDecisions& all) {
  const Trial& trial = at(number);
  const std::int32_t run = trial.run_count;
  StartRun start{.slot = slot,
                 .trial = number,
                 .run = run,
                 .until = until,
                 .point = trial.point,
                 .exploited = {},
                 .exploit_run = trial.exploit_run};
  if (!trial.exploits.empty()) start.exploited = trial.exploits.back();
  Slot& place = slots_.at(slot);
  add(all, RunBegan{.trial = number,
                    .run = run,
                    .until = until,
                    .place = place.place,
                    .reason = std::move(reason),
                    .at = when_});
  place.trial = number;
  all.actions.emplace_back(std::move(start));
}

}  // namespace muster::launcher::sweep
