// A running sweep. It knows which trial runs in which slot, and decides what follows from the trial's reports
// and its end.
//
// The searcher and the scheduler decide. Each function returns the events that the journal must keep before
// anything else happens, and the actions that follow. A slot is a place for one trial: nodes, GPUs and cores.
// For one thread; performs nothing and reads no clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "launcher/core/sweep/history/history.h"
#include "launcher/core/sweep/schedule/schedule.h"
#include "launcher/core/sweep/search/search.h"
#include "launcher/core/sweep/space/space.h"

namespace muster::launcher::sweep {

struct SweepSettings {
  Space space;
  SearchSettings search;
  ScheduleSettings schedule;
};

// Starts a run of the trial in this slot.
struct StartRun {
  std::int32_t slot = 0;
  std::int32_t trial = 0;
  std::int32_t run = 0;
  std::int64_t until = 0;  // as in RunBegan
  Point point;
  std::optional<Exploited>
      exploited{};  // the newest one: if the trial has not taken over its checkpoint yet, it does so first
  std::int32_t exploit_run = -1;  // the first run since then
};
// Ends the run of the trial. When the run is over, the caller must call on_end(). `save` says that the
// checkpoint of the run will be needed.
struct EndRun {
  std::int32_t slot = 0;
  bool save = false;
  std::string reason;
};
// Nothing runs, and nothing will be started.
struct SweepOver {
  std::string reason;
};
using SweepAction = std::variant<StartRun, EndRun, SweepOver>;

struct SweepDecisions {
  std::vector<Event> events;  // to be made durable first
  std::vector<SweepAction> actions;
};

class Sweep {
 public:
  explicit Sweep(SweepSettings settings, RetryLimit retries = {})
      : settings_(std::move(settings)), history_(retries) {}

  // To continue a sweep, call this before any other function, with each event of the journal in order.
  // Returns an error if the event cannot follow the events before it.
  Status replay(const Event& event);
  // Call these functions after replay(), for each trial that was running when its controller was killed.
  // First call on_found() for each report that the trial has left, in order. Then call on_lost(). Its
  // argument `finished` says whether the trial's program had ended with exit code 0.
  SweepDecisions on_found(std::int32_t trial, std::int64_t step, std::map<std::string, double> values,
                          double when);
  SweepDecisions on_lost(std::int32_t trial, bool finished, double when);

  // Adds a slot, which can take a trial from now on. `place` is a name for people, such as "node2 GPU 0,1".
  // `hosts` are the hosts of the slot's nodes. If there are none, the slot is on this machine.
  SweepDecisions add_slot(std::int32_t slot, std::string place, double when = 0,
                          std::vector<std::string> hosts = {});
  // Call when the host is lost. Its slots take no more trials. Trials that run there continue until on_end()
  // is called. Returns false if none of its slots was able to take a trial before.
  bool set_aside(const std::string& host);
  const std::set<std::string>& lost_hosts() const { return lost_hosts_; }
  // Returns the hosts that have no room for another slot. These are lost hosts, and hosts that have a slot
  // which runs a trial or can take one.
  std::set<std::string> taken_hosts() const;
  std::size_t usable_count() const;  // slots that can take trials, now or when theirs ends
  // Call for each report of the trial in this slot. Ignores a value that the trial has reported for this step
  // before, with the same parameters: a run that begins again at a checkpoint repeats steps.
  SweepDecisions on_report(std::int32_t slot, std::int64_t step, std::map<std::string, double> values,
                           double when);
  // Call when the run in this slot is over. `end` says what happened to the program. The function itself
  // considers whether the scheduler wanted to pause or stop the run. If a host was lost, call set_aside()
  // before this.
  SweepDecisions on_end(std::int32_t slot, RunEnd end, std::string text, double when);
  // Ends all runs, and starts no more. `reason` is for people. A call of on_end() follows for each run.
  SweepDecisions cancel(std::string reason);
  // Starts no more trials or runs. The runs that are going on continue until they end by themselves or the
  // scheduler ends them.
  SweepDecisions drain(std::string reason);

  // If another program runs the trials, call this when a trial's run has ended. `end` has the same meaning as
  // for on_end().
  SweepDecisions end_run(std::int32_t trial, RunEnd end, std::string text, double when);
  // If the scheduler has decided to end the run of this trial, returns the decision. Otherwise returns
  // nullptr, and the run continues.
  const ReportDecision* wish_of(std::int32_t trial) const {
    const auto found = wishes_.find(trial);
    return found == wishes_.end() ? nullptr : &found->second;
  }

  const History& history() const { return history_; }
  bool is_over() const { return over_; }
  // Returns whether the sweep is over because all of its hosts were set aside.
  bool lacks_hosts() const { return lacks_hosts_; }

 private:
  struct Slot {
    std::string place;
    std::vector<std::string> hosts;
    bool usable = true;
    std::optional<std::int32_t> trial{};
  };
  const Trial& at(std::int32_t trial) const;
  bool has_all_steps(const Trial& trial) const;
  void note_wish(std::int32_t trial);
  std::optional<ReportDecision> take_wish(std::int32_t trial);
  RunEnd end_by(const ReportDecision& wish, std::int32_t trial) const;
  std::string missing_metric(const Trial& trial) const;
  bool is_lost_too_often(std::int32_t trial, RunEnd end);
  void add_end(SweepDecisions& all, RunEnded ended, const std::optional<ReportDecision>& wish);
  bool add_report(SweepDecisions& all, Reported report);
  void add(SweepDecisions& all, Event event);
  void fill_slots(SweepDecisions& all);  // at when_
  bool fill(std::int32_t slot, SweepDecisions& all);
  bool create_trial(std::int32_t slot, const NewTrial& wanted, const std::string& reason,
                    SweepDecisions& all);
  void start_run(std::int32_t slot, std::int32_t trial, std::int64_t until, std::string reason,
                 SweepDecisions& all);

  SweepSettings settings_;
  History history_;
  std::map<std::int32_t, Slot> slots_;
  std::set<std::string> lost_hosts_;
  std::map<std::int32_t, ReportDecision> wishes_;  // by running trial: what its run is ended for
  std::map<std::int32_t, int> losses_;  // by trial: lost runs since its newest report, where hosts are kept
  bool points_left_ = true;
  std::string stopped_for_;  // why no more runs are started; empty: they are
  bool cancelled_ = false;
  bool over_ = false;
  bool lacks_hosts_ = false;
  std::uint64_t exploit_count_ = 0;
  double when_ = 0;  // the time of the newest event
};

}  // namespace muster::launcher::sweep
