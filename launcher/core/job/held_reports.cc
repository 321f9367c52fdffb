#include "launcher/core/job/held_reports.h"

#include <utility>

namespace muster::launcher {

bool HeldReports::hold(const AgentSaid& said, TimePoint now) {
  using enum wire::ReportKind;
  const auto* report = std::get_if<wire::WorkerReported>(&said.message);
  if (report == nullptr || (report->kind != kStep && report->kind != kHeartbeat)) return false;
  if (!due_) due_ = now + kInterval;
  const auto [found, added] = position_.try_emplace(report->rank, held_.size());
  if (added) {
    held_.push_back(said);
    held_.back().heard_at = now;
    return true;
  }
  AgentSaid& held = held_[found->second];
  // A report of a step says more than a heartbeat. So a heartbeat does not replace a step that is held.
  const bool is_step = std::get<wire::WorkerReported>(held.message).kind == kStep;
  if (report->kind == kStep || !is_step) held = said;
  held.heard_at = now;
  return true;
}

std::vector<AgentSaid> HeldReports::take() {
  position_.clear();
  due_.reset();
  return std::exchange(held_, {});
}

}  // namespace muster::launcher
