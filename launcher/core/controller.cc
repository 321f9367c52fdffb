#include "launcher/core/controller.h"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

namespace muster::launcher {

namespace {

// A deadline noticed so late means that the launcher itself was stopped or starved: nobody could be heard
// meanwhile.
constexpr Duration kOverslept = std::chrono::seconds(1);

FleetLimits limits_of(const Plan& plan, std::string version) {
  return {.silence = plan.job.limits.silence_limit,
          .version = std::move(version),
          .exclusion = {.window = plan.recovery.restart_window, .exclusion = plan.recovery.node_exclusion}};
}

}  // namespace

Controller::Controller(const Plan& plan, std::string version)
    : fleet_(limits_of(plan, std::move(version))), job_(plan, fleet_) {}

Decisions Controller::on(const Event& event, TimePoint now) {
  std::visit([this, now](const auto& what) { handle(what, now); }, event);
  return std::exchange(decisions_, {});
}

template <class What>
void Controller::tell_job(const What& event, TimePoint now) {
  std::ranges::move(job_.on(event, now), std::back_inserter(decisions_));
}

std::optional<TimePoint> Controller::next_deadline() const {
  if (job_.phase() == Phase::kDone) return std::nullopt;
  const auto agents = fleet_.next_deadline();
  const auto attempts = job_.next_deadline();
  if (!agents || !attempts) return agents ? agents : attempts;
  return std::min(*agents, *attempts);
}

template <class Other>
void Controller::handle(const Other& event, TimePoint now) {
  if constexpr (std::is_constructible_v<FleetEvent, const Other&>) {
    carry(fleet_.on(event, now), now);
  } else {
    tell_job(event, now);
  }
}

// Whoever is not heard any more is dropped here, before anybody believes it.
void Controller::handle(const AgentSaid& event, TimePoint now) {
  if (!fleet_.listens_to(event.agent)) return;
  carry(fleet_.on(event, now), now);
  const NodePlan* const node = job_.crew().find(event.agent.node);
  if (node != nullptr && event.attempt == job_.attempt() && event.attempt != Attempt())
    ranks_.on(*node, event.attempt, event.message, now);
  tell_job(event, now);
}

void Controller::handle(const TimePassed& event, TimePoint now) {
  const auto due = next_deadline();
  if (!due || *due > now) return;
  carry(fleet_.on_time(now, /*noticed_late=*/now - *due > kOverslept), now);
  tell_job(event, now);
}

// A silence's deadline may come just after the launcher was stopped, too short a time for it to be late
// itself.
void Controller::handle(const SecondPassed& event, TimePoint now) {
  fleet_.slept(now - event.due);
}

void Controller::carry(Fleet::Outcome outcome, TimePoint now) {
  for (FleetDecision& each : outcome.decisions)
    std::visit([&](auto& action) { decisions_.push_back({std::move(action), std::move(each.reason)}); },
               each.action);
  for (const FleetNews& news : outcome.news) std::visit([&](const auto& what) { tell_job(what, now); }, news);
}

}  // namespace muster::launcher
