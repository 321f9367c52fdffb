#include "agent/core/health/hang_watch.h"

#include <algorithm>
#include <fmt/format.h>

namespace muster::agent {

namespace {

using namespace std::chrono_literals;

constexpr Duration kSoftAtLeast = 5s;
constexpr Duration kHardAtLeast = 120s;
constexpr int kSoftTimes = 5;
constexpr int kHardTimes = 30;
// The hang limit is at least this many times the longest duration that was seen. With a lower limit, normal
// steps would exceed the limit.
constexpr int kTimesBeyondHangLimit = 3;
constexpr std::size_t kMaxSections = 64;  // open at once
constexpr std::size_t kMaxNames = 1024;

bool is_stopped(ProcessState state) {
  return state == ProcessState::kStopped || state == ProcessState::kFrozen;
}

double seconds(Duration duration) {
  return Seconds(duration).count();
}

}  // namespace

void UsualTime::seen(Duration took) {
  ++count_;
  longest_ = std::max(longest_, took);
}

Duration UsualTime::hard(Duration hang_limit) const {
  if (!known()) return hang_limit;
  return std::min(std::max(kHardAtLeast, kHardTimes * longest_),
                  std::max(hang_limit, kTimesBeyondHangLimit * longest_));
}

Duration UsualTime::soft(Duration hang_limit) const {
  const Duration half = hard(hang_limit) / 2;
  return known() ? std::min(half, std::max(kSoftAtLeast, kSoftTimes * longest_)) : half;
}

std::string UsualTime::text() const {
  return known() ? fmt::format(" (the longest so far took {:.1f} s)", seconds(longest_)) : "";
}

void HangWatch::add(Rank rank, TimePoint now) {
  if (watched_.empty()) {
    next_look_ = now + kLookInterval;
    last_look_ = now;
  }
  watched_[rank] = {};
}

void HangWatch::on(const Report& report, TimePoint now) {
  const auto found = watched_.find(report.message.rank);
  if (found == watched_.end()) return;
  Watched& rank = found->second;
  using enum wire::ReportKind;
  const wire::ReportKind kind = report.message.kind;
  if (kind == kFinished) return remove(report.message.rank);
  if (rank.heartbeat || (kind == kHeartbeat && !report.may_be_late)) rank.heartbeat = Wait{now};
  if (kind == kStep || (kind == kHeartbeat && report.message.step > rank.newest_step))
    step(rank, report.message, now);
  if (kind == kIdle) rank.step.reset();
  if (kind == kHeartbeat) rank.activity = report.activity;
  if (kind == kSection && report.section) {
    if (report.entered)
      enter(rank, *report.section, now);
    else
      leave(rank, *report.section, now);
  }
  if (kind == kHeartbeat && report.section) correct_section(rank, report, now);
}

// The number of names is limited, so that a worker cannot fill the agent's memory.
void HangWatch::seen(UsualTimes& times, const Watched& rank, const std::string& name, Duration took) {
  const std::pair key(rank.group, name);
  if (times.contains(key) || times.size() < kMaxNames) times[key].seen(took);
}

UsualTime HangWatch::usual(const UsualTimes& times, const Watched& rank, const std::string& name) {
  const auto learned = times.find({rank.group, name});
  return learned != times.end() ? learned->second : UsualTime();
}

void HangWatch::step(Watched& rank, const wire::WorkerReported& report, TimePoint now) {
  if (report.kind == wire::ReportKind::kStep) rank.group = report.group;
  const TimePoint until = rank.sections.empty() ? now : rank.step_paused;
  // If a step began and ended within one section, no time passed outside the section. Then there is nothing
  // to learn about steps.
  if (rank.step && until > rank.step->since) seen(step_times_, rank, "", until - rank.step->since);
  rank.step = Wait{until};
  rank.newest_step = report.step;
}

void HangWatch::enter(Watched& rank, const std::string& name, TimePoint since) {
  if (rank.sections.size() >= kMaxSections) return;
  if (rank.sections.empty()) rank.step_paused = since;
  rank.sections.push_back({name, Wait{since}});
}

// Leaves a section. If there are several of this name, leaves the one that was entered last. Other sections
// may have been entered later, because sections of several threads can overlap.
void HangWatch::leave(Watched& rank, const std::string& name, TimePoint now) {
  const auto last = std::find_if(rank.sections.rbegin(), rank.sections.rend(),
                                 [&](const Section& section) { return section.name == name; });
  if (last == rank.sections.rend()) return;
  seen(section_times_, rank, name, now - last->wait.since);
  rank.sections.erase(std::next(last).base());
  if (rank.sections.empty() && rank.step) rank.step->since += now - rank.step_paused;
}

// A heartbeat names the innermost section of the rank, or "" if the rank is in none. If the named section is
// not the innermost one that is known here, a datagram about a section was lost. Then this function leaves or
// enters sections until the two agree.
void HangWatch::correct_section(Watched& rank, const Report& report, TimePoint now) {
  const std::string& name = *report.section;
  const bool inside = std::ranges::find(rank.sections, name, &Section::name) != rank.sections.end();
  while (!rank.sections.empty() && rank.sections.back().name != name && (name.empty() || inside))
    leave(rank, std::string(rank.sections.back().name), now);
  if (!name.empty() && (rank.sections.empty() || rank.sections.back().name != name))
    enter(rank, name, now - report.section_time);
}

// Calls `move` for each clock of the rank, except for the clock `stop`.
template <class Move>
void HangWatch::move_clocks(Watched& rank, Move move) {
  if (rank.heartbeat) move(rank.heartbeat->since);
  if (rank.step) move(rank.step->since);
  move(rank.step_paused);
  for (Section& section : rank.sections) move(section.wait.since);
}

void HangWatch::start_afresh(TimePoint now) {
  for (auto& [id, rank] : watched_) {
    rank.state = ProcessState::kLive;
    move_clocks(rank, [now](TimePoint& since) { since = now; });
  }
}

void HangWatch::pause(TimePoint now) {
  const Duration paused = now - last_look_;
  for (auto& [id, rank] : watched_)
    move_clocks(rank, [now, paused](TimePoint& since) { since = std::min(since + paused, now); });
}

std::vector<wire::WorkerStalled> HangWatch::look(const std::map<Rank, ProcessState>& states, TimePoint now) {
  if (now > next_look_ + kOverslept) start_afresh(now);
  next_look_ = now + kLookInterval;
  last_look_ = now;
  std::vector<wire::WorkerStalled> stalled;
  for (auto& [id, rank] : watched_) {
    const auto seen = states.find(id);
    const ProcessState state = seen != states.end() ? seen->second : ProcessState::kLive;
    if (state != rank.state) rank.stop = Wait{now};
    rank.state = state;
    const auto stall = judge(rank, now);
    if (!stall) continue;
    rank.given_up |= stall->hard;
    stalled.push_back(told(id, rank, *stall));
  }
  return stalled;
}

std::vector<wire::WorkerStalled> HangWatch::stopped(TimePoint now) const {
  std::vector<wire::WorkerStalled> stalled;
  for (const auto& [id, rank] : watched_) {
    if (!is_stopped(rank.state) || rank.given_up) continue;
    Stall stall = stop_of(rank, now);
    stall.hard = false;  // the next look reports hard stalls
    stalled.push_back(told(id, rank, stall));
  }
  return stalled;
}

wire::WorkerStalled HangWatch::told(Rank id, const Watched& rank, const Stall& stall) {
  const bool stopped = is_stopped(rank.state);
  // This is the place of the rank's last report. If the rank was stopped, it may have gone on after that
  // report.
  const std::string where =
      rank.activity.empty() ? "" : fmt::format(", {}{}", stopped ? "heard last " : "", "at " + rank.activity);
  return {.rank = id,
          .stopped = stopped,
          .hard = stall.hard,
          .what = stall.what + where,
          .section = rank.sections.empty() ? "" : rank.sections.back().name,
          .step = rank.newest_step,
          .since_ns = to_ns(stall.since)};
}

HangWatch::Stall HangWatch::stop_of(const Watched& rank, TimePoint now) {
  const bool stopped = rank.state == ProcessState::kStopped;
  const char* how = stopped ? "is stopped (SIGSTOP)" : "is frozen (by the freezer of its cgroup)";
  return {.hard = now - rank.stop.since >= (stopped ? kStopLimit : kFreezeLimit),
          .what = fmt::format("{} for {:.0f} s", how, seconds(now - rank.stop.since)),
          .since = rank.stop.since};
}

std::optional<TimePoint> HangWatch::next_deadline() const {
  return watched_.empty() ? std::nullopt : std::optional(next_look_);
}

std::optional<HangWatch::Stall> HangWatch::judge(Watched& rank, TimePoint now) {
  if (rank.given_up) return std::nullopt;
  if (is_stopped(rank.state)) {
    // A stopped process cannot send heartbeats or make steps. So their absence says nothing, and only the
    // stop itself counts.
    const Stall stall = stop_of(rank, now);
    return stall.hard ? std::optional(stall) : std::nullopt;
  }
  if (rank.state == ProcessState::kUninterruptible && limits_.uninterruptible > Duration::zero()) {
    const Duration asleep = now - rank.stop.since;
    if (asleep >= limits_.uninterruptible)
      return Stall{true, fmt::format("is in uninterruptible sleep (state D) for {:.0f} s", seconds(asleep)),
                   rank.stop.since};
  }
  if (rank.heartbeat && limits_.heartbeat > Duration::zero()) {
    const Duration silence = now - rank.heartbeat->since;
    const bool hard = silence >= limits_.heartbeat;
    if (hard || (silence >= limits_.heartbeat / 3 && !rank.heartbeat->told)) {
      rank.heartbeat->told = true;
      return Stall{hard, fmt::format("sent no heartbeat for {:.0f} s", seconds(silence)),
                   rank.heartbeat->since};
    }
  }
  if (limits_.hang > Duration::zero()) return judge_progress(rank, now);
  return std::nullopt;
}

// Decides whether the rank has taken too long for a section that it is in. If it is in no section, decides
// about its step.
std::optional<HangWatch::Stall> HangWatch::judge_progress(Watched& rank, TimePoint now) {
  const auto judge_wait = [&](Wait& wait, const UsualTime& usual,
                              const std::string& what) -> std::optional<Stall> {
    const Duration waited = now - wait.since;
    const bool hard = waited >= usual.hard(limits_.hang);
    if (!hard && (wait.told || waited < usual.soft(limits_.hang))) return std::nullopt;
    wait.told = true;
    return Stall{hard, fmt::format("{} for {:.0f} s{}", what, seconds(waited), usual.text()), wait.since};
  };
  if (rank.sections.empty() && rank.step)
    return judge_wait(*rank.step, usual(step_times_, rank, ""),
                      fmt::format("has made no step after step {}", rank.newest_step));
  std::optional<Stall> worst;
  for (Section& section : rank.sections) {
    const auto stall = judge_wait(section.wait, usual(section_times_, rank, section.name),
                                  fmt::format("is in section '{}'", section.name));
    if (stall && (!worst || !worst->hard)) worst = stall;
  }
  return worst;
}

}  // namespace muster::agent
