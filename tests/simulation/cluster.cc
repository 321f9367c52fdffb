#include "tests/simulation/cluster.h"

#include <algorithm>
#include <csignal>
#include <numeric>
#include <ranges>

#include "common/base/log.h"
#include "launcher/core/text/words.h"
#include "tests/simulation/training.h"

namespace muster::simulation {

using namespace std::chrono_literals;
using launcher::Phase;

namespace {

// After this wait for a phase or for something to hit, a fault happens without it or is given up.
constexpr Duration kPatience = 20s;
constexpr Duration kGivenUp = 30s;
constexpr Duration kForEver = 2h;
// The period of `launch dump`, in every phase of the job.
constexpr Duration kDumpPeriod = 45s;
// The period of `launch nodes add`, if the script adds hosts.
constexpr Duration kGrowthPeriod = 130s;
constexpr std::uint64_t kMostEvents = 20'000'000;

}  // namespace

int Outcome::fault_count() const {
  return std::accumulate(faults.begin(), faults.end(), 0);
}

Cluster::Cluster(Script script, std::uint64_t seed, std::function<void(const std::string&)> trace)
    : world_(std::move(script), seed),
      launchers_clock_(world_.timeline, world_.chance.between(0s, 48h), world_.script.drift / 2),
      trouble_(seed, 5) {
  if (trace) {
    world_.trace = [this, trace = std::move(trace)](const std::string& line) {
      trace(fmt::format("{:11.6f} {}", launcher::in_seconds(world_.age()), line));
    };
  }
  world_.launcher_lives = [this](int number) {
    return std::ranges::any_of(
        launches_, [number](const auto& each) { return each->number() == number && !each->over(); });
  };
  next_growth_ = world_.timeline.now() + kGrowthPeriod;
  fault_due_ = world_.timeline.now() + (world_.script.faults.empty() ? 0s : world_.script.faults[0].gap);
  launch(false);
  world_.timeline.after(1s, [this] { look(); });
  world_.timeline.after(50ms, [this] { make_due_faults(); });
}

Cluster::~Cluster() = default;

// The sum of: the silence limit, stopping the others with a margin, the longest back-off, a start, the steps,
// leaving.
Duration Cluster::progress_limit() const {
  constexpr Duration kStopMargin = 5s, kStart = 5s, kMargin = 2s;
  const Duration leaving =
      world_.script.memory_tier ? 60s : 5s;  // agents write checkpoints in memory to disk
  return Limits::kSilence + Limits::kGrace + kStopMargin + kStart + 3 * world_.script.step + leaving +
         kMargin;
}

void Cluster::launch(bool take_over) {
  const Launch::Options options{.number = static_cast<int>(launches_.size()) + 1,
                                .take_over = take_over,
                                .connects_late = world_.chance.one_in(2)};
  launches_.push_back(std::make_unique<Launch>(world_, launchers_clock_, options, [this] { changed(); }));
  world_.progressed();
  // Scheduled, since the previous launcher's function may still be running.
  world_.timeline.after(0ms, [launch = launches_.back().get()] { launch->begin(); });
}

Outcome Cluster::run() {
  log::divert([this](std::string_view line) {
    if (world_.trace) world_.say(fmt::format("log: {}", line.substr(0, line.size() - 1)));
  });
  while (!over() && world_.timeline.event_count() < kMostEvents &&
         world_.timeline.step(world_.began + kForEver)) {
  }
  log::divert({});
  Invariants& must = world_.invariants;
  must.holds(world_.timeline.event_count() < kMostEvents, "G7: it goes round in circles");
  must.holds(over(), "G7: it never ends");
  return {.findings = must.findings(),
          .faults = world_.faults,
          .length = world_.age(),
          .event_count = world_.timeline.event_count()};
}

InputRead Cluster::input_of(const Launch& launch) const {
  const auto found = world_.input.find(launch.number());
  return found == world_.input.end() ? InputRead{} : found->second;
}

void Cluster::at(Duration time, std::function<void(Launch&)> what) {
  world_.timeline.after(time, [this, what = std::move(what)] {
    if (!current().over() && !current().silent()) what(current());
  });
}

bool Cluster::over() {
  if (relaunching_) return false;
  // Begins with the newest launch, which has mostly not ended: this runs at every event.
  return std::ranges::all_of(launches_ | std::views::reverse, [](const auto& each) { return each->gone(); });
}

// A launch has changed: its phase, an agent, or it has ended.
void Cluster::changed() {
  if (!all_faults_made()) {
    const Fault& fault = world_.script.faults[next_fault_];
    if (fault.phase && !phase_met_ && world_.timeline.now() >= fault_due_ && current().runs() &&
        current().job().phase() == *fault.phase) {
      phase_met_ = world_.timeline.now() + fault.after;
      world_.timeline.at(*phase_met_, [this] { make_due_faults(); });
    }
  }
  const Launch& last = current();
  const bool ended = last.over() || last.silent();
  if (!ended || relaunching_ || !world_.script.launch_again) return;
  if (last.finished() && last.job().verdict().exit_code == 0) return;
  relaunching_ = true;
  world_.timeline.after(world_.chance.between(100ms, 3s), [this] {
    relaunching_ = false;
    launch(/*take_over=*/true);
  });
}

void Cluster::look() {
  const TimePoint now = world_.timeline.now();
  world_.may_end =
      world_.age() >= world_.script.length && (!world_.script.until_faults_are_made || all_faults_made());
  const Duration since = now - std::max(world_.disturbed_until, world_.progressed_at);
  // Checks the agents without a launcher when their grace is over.
  const bool launcher_is_gone = (current().over() || current().silent()) && !world_.script.launch_again;
  if (!launcher_is_gone && !std::exchange(stuck_told_, stuck_told_ || since > progress_limit()))
    world_.invariants.makes_progress(since, progress_limit());
  if (now >= next_dump_ && current().runs()) {
    current().dump_stacks();
    current().look_at_status();
    next_dump_ = now + kDumpPeriod;
  }
  if (world_.script.added_nodes > 0 && now >= next_growth_ && current().runs() && current().add_host())
    next_growth_ = now + kGrowthPeriod;
  world_.timeline.after(std::min<Duration>(1s, world_.script.step), [this] { look(); });
}

// ---- Faults ----

void Cluster::make_due_faults() {
  constexpr Duration kPoll = 100ms;
  const TimePoint now = world_.timeline.now();
  const bool polled = now >= next_poll_;
  if (polled) next_poll_ = now + kPoll;
  if (!all_faults_made() && now >= fault_due_) {
    const Fault& fault = world_.script.faults[next_fault_];
    const bool met = !fault.phase || (phase_met_ && now >= *phase_met_) || now >= fault_due_ + kPatience;
    if (fault.phase && !phase_met_ && current().runs() && current().job().phase() == *fault.phase)
      phase_met_ = now + fault.after;
    FaultKind kind = fault.kind;
    bool made = met && current().runs() && make(fault);
    if (!made && now >= fault_due_ + kGivenUp && current().runs()) {
      kind = FaultKind::kWorkerDies;  // replaces the fault that could not happen
      Fault other = fault;
      other.kind = kind;
      made = make(other);
    }
    if (made) {
      if (!traits_of(kind).waits) world_.came_true(kind);
      if (!traits_of(kind).of_worker) world_.say(fmt::format("FAULT: {}", describe(fault)));
    }
    if (made || now >= fault_due_ + 2 * kGivenUp) {
      ++next_fault_;
      phase_met_.reset();
      fault_due_ = now + (all_faults_made() ? 0s : world_.script.faults[next_fault_].gap);
    }
  }
  if (polled && !all_faults_made()) world_.timeline.at(next_poll_, [this] { make_due_faults(); });
}

bool Cluster::make(const Fault& fault) {
  Launch& launch = current();
  const FaultTraits traits = traits_of(fault.kind);
  const TimePoint now = world_.timeline.now();
  if (traits.of_worker) return launch.hit_worker(fault);
  Machine& home = *world_.machines[static_cast<std::size_t>(fault.node)];
  switch (fault.kind) {
    case FaultKind::kAgentKilled:
    case FaultKind::kAgentPauses:
    case FaultKind::kAgentFreezes: return launch.agents().hit_agent(fault);
    case FaultKind::kAgentNotStarted:
    case FaultKind::kAgentDoesNotCall:
    case FaultKind::kAgentOfOtherVersion: return launch.agents().arm_start(fault);
    case FaultKind::kLinkCloses:
    case FaultKind::kLinkFallsSilent:
    case FaultKind::kLinkIsCutOneWay:
    case FaultKind::kLinkClogs:
    case FaultKind::kLinkIsGarbled: return launch.agents().hit_link(fault);
    case FaultKind::kStranger: return launch.agents().send_stranger(fault);
    case FaultKind::kAttemptRefused:
    case FaultKind::kExecutionRefused: world_.refusals[NodeId(fault.node)] = fault.kind; return true;
    case FaultKind::kLogDiskBlocks:
      home.disk_blocked_until = now + fault.length;
      world_.disturbed(home.disk_blocked_until);
      return true;
    case FaultKind::kDatagramsLost:
      if (now < world_.steps_told_at) return false;  // otherwise a rank would seem to be behind
      home.datagrams_lost_until = now + fault.length;
      return true;
    case FaultKind::kClockDrifts:
      home.clock().set_drift(world_.script.drift * (fault.choice - 6) / 6);
      return true;
    case FaultKind::kLineageLate:
      if (world_.script.checkpoints) launch.lineage().be_late(now + fault.length);
      world_.disturbed(now + fault.length);
      return world_.script.checkpoints;
    case FaultKind::kLineageFails:
      if (world_.script.checkpoints) launch.lineage().fail(1 + fault.choice % 3);
      return world_.script.checkpoints;
    case FaultKind::kLauncherPauses: launch.pause(fault.length); return true;
    default: return end_launch(fault);
  }
}

// Faults that usually end a launch.
bool Cluster::end_launch(const Fault& fault) {
  Launch& launch = current();
  switch (fault.kind) {
    case FaultKind::kSecondLauncher:
      if (!world_.script.checkpoints || launch.job().attempt() == Attempt()) return false;
      this->launch(/*take_over=*/fault.choice % 3 != 0);
      return true;
    case FaultKind::kLauncherDies:
      launch.die();
      launcher_gone(launch);
      return true;
    case FaultKind::kLauncherFallsSilent:
      launch.fall_silent(fault.choice % 2 == 0 && world_.script.checkpoints
                             ? std::optional(trouble_.between(10s, 30s))
                             : std::nullopt);
      launcher_gone(launch);
      return true;
    case FaultKind::kInterrupt: {
      Duration when{};
      for (int count = fault.choice % 3; count >= 0; --count) {
        world_.timeline.after(when, [&launch] {
          if (launch.runs()) launch.interrupt(SIGINT);
        });
        when += trouble_.between(0ms, 1s);
      }
      return true;
    }
    case FaultKind::kCancel: launch.cancel(fault.choice % 3 == 0); return true;
    case FaultKind::kNotice: launch.interrupt(fault.choice % 2 == 0 ? SIGTERM : SIGUSR1); return true;
    default: launch.pass_signal_on(); return true;
  }
}

void Cluster::launcher_gone(Launch& launch) {
  Duration limit = Limits::kControllerGrace + Limits::kGrace + 5s;
  if (launch.silent()) limit += Limits::kSilence;
  // An agent without a welcome has no processes and waits for it. A stopped agent goes on first.
  if (!launch.agents().all_welcomed()) limit = std::max(limit, Duration(agent::Node::kWelcomeLimit) + 1s);
  limit += 10s;
  world_.disturbed(world_.timeline.now());
  world_.timeline.after(limit, [this, &launch] {
    if (launch.woke()) return;
    world_.invariants.a_job_without_launcher_has_ended(launch.living_process_count(),
                                                       launch.living_agent_count());
  });
  changed();
}

}  // namespace muster::simulation
