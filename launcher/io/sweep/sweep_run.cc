#include "launcher/io/sweep/sweep_run.h"

#include <csignal>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/process.h"
#include "launcher/core/text/words.h"
#include "launcher/io/fleet/children.h"
#include "launcher/io/fleet/container_access.h"
#include "launcher/io/fleet/local_bootstrap.h"

namespace muster::launcher::sweep {

namespace {

// When runs have ended, the next trials start first. The runs that have ended are closed this much later.
constexpr auto kClosingPeriod = std::chrono::milliseconds(8);
constexpr auto kLastClosingPeriod = std::chrono::milliseconds(1);
// If nothing follows from a report, the report waits this long for further reports. Then they are all written
// to the disk together.
constexpr auto kReportPeriod = std::chrono::milliseconds(100);
// A start counts as work of this process for this long. If the start takes longer, it is waiting for
// something else.
constexpr Duration kStartLimit = std::chrono::milliseconds(5);

}  // namespace

SweepRun::SweepRun(Sweep& sweep, Parts parts)
    : sweep_(sweep),
      parts_(std::move(parts)),
      time_(parts_.context.get_executor()),
      signals_(parts_.context.get_executor(), parts_.signals),
      budget_(parts_.context),
      closing_timer_(parts_.context),
      report_timer_(parts_.context),
      start_timer_(parts_.context),
      agents_(parts_.context.get_executor(), parts_.agent_program, LocalBootstrap::limit_before_raise()),
      kept_(parts_.context.get_executor()) {}

Expected<std::string> SweepRun::run(const std::vector<Berth>& berths) {
  wait_for_signals();
  if (parts_.time_budget) {
    budget_.expires_after(*parts_.time_budget);
    budget_.async_wait([this](const boost::system::error_code& error) {
      if (!error) perform(sweep_.cancel("the time budget is used up"));
    });
  }
  for (const Berth& berth : berths) {
    if (!over_) add_slot(berth);
  }
  while (!(over_ && runs_.empty() && closing_.empty()) && parts_.context.run_one() > 0) {
  }
  budget_.cancel();
  signals_.cancel();
  report_timer_.cancel();
  start_timer_.cancel();
  kept_.close();
  while (!kept_.idle() && parts_.context.run_one() > 0) {
  }
  if (failure_) return std::unexpected(*std::move(failure_));
  return over_.value_or("");
}

void SweepRun::add_slot(const Berth& berth) {
  std::vector<std::string> hosts;
  for (const Host& host : berth.hosts) hosts.push_back(host.name);
  perform(sweep_.add_slot(slot_count_++, berth.place, age(), std::move(hosts)));
}

// First writes the events to the disk. Before that, nothing that follows from them is done.
void SweepRun::perform(SweepDecisions decisions) {
  if (failure_) return;
  const bool waits =
      decisions.actions.empty() && std::ranges::all_of(decisions.events, [](const Event& event) {
        return std::holds_alternative<Reported>(event);
      });
  if (waits) {
    if (unkept_.empty() && !decisions.events.empty()) keep_soon();
    std::ranges::move(decisions.events, std::back_inserter(unkept_));
    return;
  }
  if (!keep(std::move(decisions.events))) return;
  for (const SweepAction& action : decisions.actions) {
    std::visit([this](const auto& what) { perform(what); }, action);
    if (failure_) return;
  }
}

bool SweepRun::keep(std::vector<Event> events) {
  std::vector<Event> all = std::exchange(unkept_, {});
  std::ranges::move(events, std::back_inserter(all));
  if (all.empty()) return true;
  if (const Status kept = parts_.keep(all); !kept) {
    end_at_once(kept.error());
    return false;
  }
  parts_.show(all);
  return true;
}

void SweepRun::keep_soon() {
  report_timer_.expires_after(kReportPeriod);
  report_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && !failure_) keep({});
  });
}

void SweepRun::perform(const StartRun& start) {
  const std::int32_t slot = start.slot;
  auto plan = parts_.prepare(start);
  if (!plan)
    return end_at_once({plan.error().code(),
                        fmt::format("cannot start trial {}: {}; `launch sweep resume` goes on with the sweep",
                                    start.trial, plan.error().message())});
  const Trial& trial = sweep_.history().trials().at(static_cast<std::size_t>(start.trial));
  const bool stay = !parts_.local && keeps_agents(*plan);
  auto run = std::make_unique<TrialRun>(
      *std::move(plan),
      TrialRun::Parts{.context = parts_.context,
                      .time = time_,
                      .files = parts_.files,
                      .agent_program = parts_.agent_program,
                      .agents = parts_.local ? &agents_ : nullptr,
                      .kept = stay ? &kept_ : nullptr,
                      .log_directory_flag = parts_.log_directory_flag(start),
                      .started =
                          [this, slot] {
                            if (starting_.erase(slot) > 0)
                              asio::post(parts_.context, [this] { handle_ends(); });
                          },
                      .reported =
                          [this, slot](std::int64_t step, std::map<std::string, double> values) {
                            perform(sweep_.on_report(slot, step, std::move(values), age()));
                          },
                      .ended =
                          [this, slot](RunEnd end, std::string text, const std::string& lost_host) {
                            starting_.erase(slot);
                            ends_.push_back({slot, end, std::move(text), lost_host});
                            handle_ends();
                          },
                      .say = parts_.say},
      trial.counts_from);
  TrialRun& started = *run;
  runs_[slot] = std::move(run);
  starting_[slot] = Clock::now();
  started.begin();
}

// When several trials end together, this function starts their successors one after the other. If it started
// all of them together on a few processors, each start would take as long as all of them, and these trials
// would end together again.
void SweepRun::handle_ends() {
  while (!ends_.empty() && may_start()) {
    End next = std::move(ends_.front());
    ends_.pop_front();
    handle(std::move(next));
  }
  if (ends_.empty()) return;
  start_timer_.expires_after(kStartLimit);
  start_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) handle_ends();
  });
}

bool SweepRun::may_start() const {
  const TimePoint now = Clock::now();
  const auto started_now =
      std::ranges::count_if(starting_, [now](const auto& each) { return now < each.second + kStartLimit; });
  return started_now < most_starts_;
}

void SweepRun::handle(End end) {
  closing_.push_back(std::move(runs_.extract(end.slot).mapped()));
  if (closing_.back()->was_refused() && !failure_)
    end_at_once({ErrorCode::kInvalidArgument, std::move(end.text)});
  if (failure_) return close_soon();
  const bool aside = !end.lost_host.empty() && sweep_.set_aside(end.lost_host);
  perform(sweep_.on_end(end.slot, end.end, std::move(end.text), age()));
  if (aside)
    parts_.say(
        fmt::format("{} is set aside: this sweep starts no more trials there; `launch sweep resume` does",
                    end.lost_host));
  if (!sweep_.lost_hosts().empty()) use_idle_hosts();
  if (closing_.size() == 1 || runs_.empty()) close_soon();
}

// Adds slots on hosts without a slot that can take a trial. Such a host had no slot before, or its slot also
// had a host that was lost.
void SweepRun::use_idle_hosts() {
  for (const Berth& berth : parts_.more_berths(sweep_.taken_hosts(), sweep_.usable_count())) {
    if (over_ && !sweep_.lacks_hosts()) return;
    over_.reset();
    add_slot(berth);
  }
}

// Returns whether the agents stay when the trial of this plan has ended. Some containers serve one trial
// only: those on other hosts, and those in a network that was made for the trial. All other agents stay,
// unless they are in containers and no guardian can be started for these.
bool SweepRun::keeps_agents(const Plan& plan) {
  if (!plan.remote.in_containers()) return true;
  if (plan.remote.bootstrap != BootstrapKind::kDocker) return false;
  if (plan.hosts.size() > 1 && plan.remote.container.network.empty()) return false;
  const Status guarded = kept_.guard_containers(agents_stay(plan));
  if (!guarded) parts_.say(guarded.error().message());
  return guarded.has_value();
}

void SweepRun::perform(const EndRun& action) {
  const auto found = runs_.find(action.slot);
  if (found != runs_.end()) found->second->end(action.save, action.reason);
}

void SweepRun::perform(const SweepOver& action) {
  over_ = action.reason;
}

// A sweep cannot go on without its journal, or without a place for a trial's files. So this ends all runs.
// The next `launch sweep resume` treats them as lost.
void SweepRun::end_at_once(const Error& why) {
  failure_ = why;
  over_ = "";
  for (const auto& [slot, run] : runs_) run->end(/*save=*/true, why.message());
}

void SweepRun::wait_for_signals() {
  signals_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [this](const boost::system::error_code& error) {
                        if (error) return;
                        read_signals();
                        wait_for_signals();
                      });
}

void SweepRun::read_signals() {
  signalfd_siginfo info{};
  bool children = false;
  while (read(signals_.native_handle(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) {
      children = true;
    } else {
      interrupt(static_cast<int>(info.ssi_signo));
    }
  }
  if (!children || !parts_.local) return;
  const std::vector<ChildEnd> ends = reap_children();
  agents_.hear_ends(ends);
  // When a run ends, the next run begins in the same slot. This changes runs_, so the loop needs a copy.
  std::vector<TrialRun*> runs;
  for (const auto& [slot, run] : runs_) runs.push_back(run.get());
  for (const auto& run : closing_) runs.push_back(run.get());
  for (TrialRun* run : runs) run->hear_ends(ends);
}

void SweepRun::interrupt(int signal) {
  if (signal == SIGUSR1 || signal == SIGUSR2) return;
  if (signal_ == 0) signal_ = signal;
  if (signal_count_++ > 0) {
    for (const auto& [slot, run] : runs_) run->end(/*save=*/false, std::string(signal_name(signal)));
    return;
  }
  const std::size_t running = runs_.size();
  parts_.say(fmt::format("{}: ends {}; `launch sweep resume` goes on with the sweep; again: kills",
                         signal_name(signal), count_of(running, "running trial")));
  perform(sweep_.cancel("stopped by " + std::string(signal_name(signal))));
}

// Closes ended runs later, and not at once. A run that has just ended is still executing code that calls this
// SweepRun.
void SweepRun::close_soon() {
  closing_timer_.expires_after(runs_.empty() ? kLastClosingPeriod : kClosingPeriod);
  closing_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    std::erase_if(closing_, [](const auto& run) { return run->close(); });
    if (!closing_.empty()) close_soon();
  });
}

}  // namespace muster::launcher::sweep
