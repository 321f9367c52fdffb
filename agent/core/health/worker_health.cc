#include "agent/core/health/worker_health.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "common/base/text.h"

namespace muster::agent {

namespace {

// A script that imports torch may need this long until it can report a step.
constexpr Duration kMostStart = std::chrono::seconds(30);

}  // namespace

WorkerHealth::WorkerHealth(const wire::JobSpec& job, bool told_blindness)
    : hang_({.heartbeat = job.limits.heartbeat_limit,
             .hang = job.limits.hang_limit,
             .uninterruptible = job.limits.uninterruptible_limit}),
      still_({.hang = job.limits.hang_limit, .ends = job.hang_limit_given}),
      blind_for_(job.hang_limit_given ? std::min(job.limits.hang_limit / 2, kMostStart) : Duration::zero()),
      told_blindness_(told_blindness) {}

void WorkerHealth::started(Rank rank, std::int32_t pid, std::optional<std::uint32_t> gpu, TimePoint now) {
  hang_.add(rank, now);
  still_.add(rank);
  workers_[rank] = {.pid = pid, .gpu = gpu, .started_at = now};
}

void WorkerHealth::on(const Report& report, const std::string& address, TimePoint now) {
  hang_.on(report, now);
  using enum wire::ReportKind;
  const auto kind = report.message.kind;
  if (kind == kStep || kind == kIdle || kind == kFinished) still_.remove(report.message.rank);
  const auto found = workers_.find(report.message.rank);
  if (found == workers_.end()) return;
  Worker& worker = found->second;
  if (!address.empty()) worker.address = address;
  if (kind == kLastLine) worker.ran_last_line |= report.pid == worker.pid;
  if (kind != kHello) return;
  worker.writes_stacks = has_word(report.message.text, "stacks");
  worker.can_be_preempted = has_word(report.message.text, "preemption");
}

WorkerHealth::Messages WorkerHealth::on(const std::vector<GpuFault>& faults, TimePoint now) {
  Messages messages;
  for (const GpuFault& fault : faults) {
    const std::string text = fmt::format("{} (GPU {})", fault.xid.text, fault.gpu);
    for (auto& [rank, worker] : workers_) {
      if (worker.gpu != fault.gpu) continue;
      messages.emplace_back(wire::AgentRemark{fmt::format("rank {}: {}", rank, text)});
      if (fault.xid.fault_class == XidClass::kProgram) continue;
      if (worker.gpu_fault.empty()) worker.gpu_fault = text;
      if (fault.xid.fault_class != XidClass::kLost) continue;
      wire::WorkerStalled stalled;
      stalled.rank = rank;
      stalled.hard = true;
      stalled.what = fmt::format("has lost its GPU: {}", text);
      stalled.since_ns = to_ns(now);
      messages.emplace_back(std::move(stalled));
    }
  }
  return messages;
}

void WorkerHealth::ended(Rank rank, wire::WorkerExited& exited) {
  exited.gpu_fault = workers_[rank].gpu_fault;
  exited.ran_last_line = workers_[rank].ran_last_line;
  hang_.remove(rank);
  still_.remove(rank);
  workers_.erase(rank);
}

// Sends a remark if the stacks of rank 0 cannot be seen. It sends none for other ranks, because
// usually all nodes have the same Python.
WorkerHealth::Messages WorkerHealth::on(const std::map<Rank, MainThread>& threads, TimePoint now) {
  Messages messages;
  for (const auto& [rank, thread] : threads) {
    if (auto stalled = still_.seen(rank, thread, now)) messages.emplace_back(*std::move(stalled));
    if (rank != Rank(0) || blind_for_ == Duration::zero() || thread.why_not.empty()) continue;
    const auto worker = workers_.find(rank);
    if (worker == workers_.end() || now - worker->second.started_at < blind_for_) continue;
    if (std::exchange(told_blindness_, true)) continue;
    messages.emplace_back(wire::AgentRemark{fmt::format(
        "--hang-limit has no effect until the script reports its steps (import muster; muster.step()), "
        "because its stacks cannot be seen: {}",
        thread.why_not)});
  }
  return messages;
}

WorkerHealth::Messages WorkerHealth::look(const std::map<Rank, ProcessState>& states, bool output_waits,
                                          TimePoint now) {
  Messages messages;
  if (output_waits) {
    hang_.pause(now);
    still_.pause();
  }
  for (wire::WorkerStalled& stalled : hang_.look(states, now)) messages.emplace_back(std::move(stalled));
  return messages;
}

WorkerHealth::Messages WorkerHealth::stopped(TimePoint now) const {
  Messages messages;
  for (wire::WorkerStalled& stalled : hang_.stopped(now)) messages.emplace_back(std::move(stalled));
  return messages;
}

std::map<Rank, std::int32_t> WorkerHealth::pids() const {
  std::map<Rank, std::int32_t> pids;
  for (const auto& [rank, worker] : workers_) pids[rank] = worker.pid;
  return pids;
}

}  // namespace muster::agent
