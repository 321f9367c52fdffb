#include "launcher/core/controller.h"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

#include "common/base/earliest.h"

namespace muster::launcher {

namespace {

// If a deadline is noticed this late, the launcher itself was stopped or got no processor. It received
// nothing in this time.
constexpr Duration kOverslept = std::chrono::seconds(1);

// Output tells the core only that the agent lives. A worker can print without a pause, and it would be too
// much work to handle each Output message. So the core skips an Output message if the previous message of the
// same agent is younger than this.
constexpr Duration kHeardJustNow = std::chrono::milliseconds(100);

// Logs can arrive without a pause, but the job only needs to know that some arrive.
constexpr Duration kLogPeriod = std::chrono::seconds(1);

FleetLimits limits_of(const Plan& plan, std::string version) {
  return {.silence = plan.job.limits.silence_limit,
          .starts_are_watched = !plan.hosts.empty(),
          .version = std::move(version),
          .exclusion = {.window = plan.recovery.restart_window, .exclusion = plan.recovery.node_exclusion}};
}

// A step that took longer than this counts as if it had taken kLongestStep. So sums of such times cannot
// overflow.
constexpr Duration kLongestStep = std::chrono::days(12);

// If the message is about one rank, returns this rank.
std::optional<Rank> rank_of(const wire::ToLauncher& message) {
  return std::visit(
      [](const auto& what) -> std::optional<Rank> {
        if constexpr (requires { what.rank; }) return what.rank;
        return std::nullopt;
      },
      message);
}

bool is_due(const std::optional<TimePoint>& when, TimePoint now) {
  return when && *when <= now;
}

}  // namespace

Controller::Controller(const Plan& plan, std::string version)
    : fleet_(limits_of(plan, std::move(version))), job_(plan, fleet_) {}

// Output, pongs and logs are signs of life, and may give an agent more time. But the core decides nothing
// about ranks because of such a message. So the reports that held_ holds back stay there when such a message
// arrives.
Decisions Controller::on(const Event& event, TimePoint now) {
  Decisions all;
  const auto* const said = std::get_if<AgentSaid>(&event);
  const bool is_of_attempt = said != nullptr && watch(*said, now);
  if (is_of_attempt) {
    if (const auto* reported = std::get_if<wire::WorkerReported>(&said->message))
      watch_pace(*reported, now, all);
    if (const auto* asked = std::get_if<wire::MpiAsked>(&said->message)) return relay(*said, *asked);
    if (held_.hold(*said, now)) return all;
  }
  const bool is_output = said != nullptr && std::holds_alternative<wire::Output>(said->message);
  const bool is_log = said != nullptr && std::holds_alternative<wire::LogPiece>(said->message);
  if (is_log && now < next_log_) return all;
  if (is_log) next_log_ = now + kLogPeriod;
  if (is_output && fleet_.heard_since(said->agent, now - kHeardJustNow)) return all;
  const bool is_sign_of_life =
      is_output || is_log || (said != nullptr && std::holds_alternative<wire::Pong>(said->message));
  const bool is_time = std::holds_alternative<TimePassed>(event);
  if (is_time && !is_due(next_deadline(), now)) return all;
  // If held reports are due, this passes only these reports on. Other deadlines that are due wait for the
  // next alarm. So the frames that are still in the channels are read before those deadlines are handled.
  const bool only_flush = is_time && is_due(held_.next_deadline(), now);
  if (!is_sign_of_life) {
    for (AgentSaid& each : held_.take()) add(all, std::move(each), now);
  }
  if (!only_flush) add(all, event, now);
  return all;
}

Decisions Controller::apply(const Event& event, TimePoint now) {
  std::visit([this, now](const auto& what) { handle(what, now); }, event);
  Decisions decisions = std::exchange(decisions_, {});
  if (witness_) witness_(*this, event, now, decisions);
  return decisions;
}

void Controller::add(Decisions& all, const Event& event, TimePoint now) {
  std::ranges::move(apply(event, now), std::back_inserter(all));
}

bool Controller::counts(AgentId agent, Attempt attempt, const wire::ToLauncher& message) const {
  if (job_.crew().find(agent.node) == nullptr || attempt != job_.attempt() || attempt == Attempt() ||
      !fleet_.listens_to(agent))
    return false;
  const auto rank = rank_of(message);
  return !rank || job_.crew().owns(agent.node, *rank);
}

// Returns whether the message counts. If it does, updates the rank table at once.
bool Controller::watch(const AgentSaid& said, TimePoint now) {
  if (!counts(said.agent, said.attempt, said.message)) return false;
  ranks_.on(*job_.crew().find(said.agent.node), said.attempt, said.message, now);
  return true;
}

Decisions Controller::relay(const AgentSaid& said, const wire::MpiAsked& asked) {
  if (std::exchange(mpi_of_, said.attempt) != said.attempt) mpi_.emplace();
  Decisions all;
  for (MpiExchange::Told& each : mpi_->on(said.agent.node, asked, job_.crew()))
    all.push_back({Send{each.node, said.attempt, std::move(each.told)}, "relayed between MPI servers"});
  return all;
}

void Controller::watch_pace(const wire::WorkerReported& reported, TimePoint now, Decisions& all) {
  if (reported.kind != wire::ReportKind::kStep || job_.phase() != Phase::kRunning) return;
  if (std::exchange(pace_of_, job_.attempt()) != job_.attempt()) {
    pace_ = Stragglers(job_.crew().world_size());
    parts_.clear();
  }
  if (!reported.text.empty()) parts_[reported.rank] = reported.text;
  const Duration busy = std::clamp(from_ns(reported.busy_ns), Duration::zero(), kLongestStep);
  for (const auto& change : pace_.stepped(reported.rank, reported.group, busy)) {
    const auto part = parts_.find(change.rank);
    add(all,
        PaceChanged{.rank = change.rank,
                    .slower = change.slower,
                    .busy = change.busy,
                    .usual = change.usual,
                    .step = reported.step,
                    .part = part == parts_.end() ? "" : part->second},
        now);
  }
}

template <class What>
void Controller::tell_job(const What& event, TimePoint now) {
  std::ranges::move(job_.on(event, now), std::back_inserter(decisions_));
}

std::optional<TimePoint> Controller::next_deadline() const {
  auto next = core_deadline();
  if (next) take_earlier(next, held_.next_deadline());
  return next;
}

std::optional<TimePoint> Controller::core_deadline() const {
  if (job_.phase() == Phase::kDone) return std::nullopt;
  auto next = fleet_.next_deadline();
  take_earlier(next, job_.next_deadline());
  return next;
}

template <class Other>
void Controller::handle(const Other& event, TimePoint now) {
  if constexpr (std::is_constructible_v<FleetEvent, const Other&>) {
    carry(fleet_.on(event, now), now);
  } else {
    tell_job(event, now);
  }
}

// Passes the message on. If the fleet does not listen to the agent any more, drops the message.
void Controller::handle(const AgentSaid& event, TimePoint now) {
  if (!fleet_.listens_to(event.agent)) return;
  carry(fleet_.on(event, now), now);
  tell_job(event, now);
}

void Controller::handle(const TimePassed& event, TimePoint now) {
  const auto due = core_deadline();
  if (!is_due(due, now)) return;
  carry(fleet_.on_time(now, /*noticed_late=*/now - *due > kOverslept), now);
  tell_job(event, now);
}

// Does not count the time in which the launcher was stopped as silence of the agents. Otherwise an agent
// could count as silent after a stop that is too short for kOverslept.
void Controller::handle(const SecondPassed& event, TimePoint now) {
  fleet_.slept(now - event.due);
}

void Controller::carry(Fleet::Outcome outcome, TimePoint now) {
  for (FleetDecision& each : outcome.decisions) decisions_.push_back(as_decision(std::move(each)));
  for (const FleetNews& news : outcome.news) std::visit([&](const auto& what) { tell_job(what, now); }, news);
}

}  // namespace muster::launcher
