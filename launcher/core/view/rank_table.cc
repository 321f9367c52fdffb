#include "launcher/core/view/rank_table.h"

#include <algorithm>
#include <cstdlib>

#include "launcher/core/text/words.h"
#include "launcher/core/verdict/worker_end.h"

namespace muster::launcher {

namespace {

constexpr Duration kWindow = std::chrono::seconds(5);

}  // namespace

// Keeps two windows of time, and computes the speed over the older one. So the speed does not jump after a
// pause, or when many reports arrive at once.
void RankTable::Entry::add_step(std::int64_t reported, TimePoint now) {
  newest_ = Sample{now, newest_ ? std::max(newest_->step, reported) : reported};
  if (!window_start_) {
    window_start_ = next_window_start_ = newest_;
  } else if (now - next_window_start_->at >= kWindow) {
    window_start_ = std::exchange(next_window_start_, newest_);
  }
}

std::optional<double> RankTable::Entry::steps_per_second() const {
  if (!newest_ || newest_->at <= window_start_->at) return std::nullopt;
  const auto count = static_cast<double>(newest_->step - window_start_->step);
  return count / in_seconds(newest_->at - window_start_->at);
}

void RankTable::on(const NodePlan& node, Attempt attempt, const wire::ToLauncher& message, TimePoint now) {
  if (attempt != attempt_) {
    attempt_ = attempt;
    entries_.clear();
    started_count_ = 0;
  }
  std::visit([&](const auto& what) { hear(node, what, now); }, message);
}

const RankTable::Entry* RankTable::find(Rank rank) const {
  const auto found = entries_.find(rank);
  return found == entries_.end() ? nullptr : &found->second;
}

void RankTable::hear(const NodePlan& node, const wire::WorkersStarted& started, TimePoint) {
  const std::size_t count = std::min(started.pids.size(), static_cast<std::size_t>(node.worker_count));
  for (std::size_t i = 0; i < count; ++i) {
    Entry& entry = entries_[Rank(node.first_rank.value() + static_cast<std::int32_t>(i))];
    started_count_ += entry.pid == 0 && started.pids[i] != 0 ? 1U : 0U;
    entry.pid = started.pids[i];
  }
}

void RankTable::hear(const NodePlan&, const wire::WorkerReported& reported, TimePoint now) {
  using enum wire::ReportKind;
  Entry& entry = entries_[reported.rank];
  entry.last_report = now;
  if (reported.kind == kHeartbeat) entry.section = reported.text;
  if (reported.step < 0) return;  // a heartbeat may arrive before the first step
  if (reported.kind == kStep) {
    entry.add_step(reported.step, now);
    if (!reported.loss.empty()) entry.loss = std::strtod(reported.loss.c_str(), nullptr);
    if (reported.samples > 0) entry.samples = reported.samples;
    entry.said.clear();
  }
  if (reported.kind == kResumed) entry.resumed_step = reported.step;
  if (reported.kind == kFinished || reported.kind == kPreempted) {
    entry.said = name_of(reported.kind);
    entry.stalls = false;
  }
}

void RankTable::hear(const NodePlan&, const wire::WorkerStalled& stalled, TimePoint now) {
  Entry& entry = entries_[stalled.rank];
  entry.said = stalled.what;
  entry.said_at = now;
  entry.stalls = !stalled.over;
}

void RankTable::hear(const NodePlan& node, const wire::WorkerExited& exited, TimePoint) {
  entries_[exited.rank].end = end_text(worker_end(node.node, exited, false));
}

}  // namespace muster::launcher
