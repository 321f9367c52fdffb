// The part of the launcher that lets others look at the job.
#include <csignal>

#include "common/base/log.h"
#include "launcher/core/text/words.h"
#include "launcher/core/view/progress.h"
#include "launcher/io/launcher.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher {

namespace {

constexpr std::size_t kToldLimit = 10;

}  // namespace

// While the agents start: it must not cost the start anything. The job does without both if need be.
void Launcher::publish() {
  if (const Status written = write_job_record(plan_); !written)
    parts_.terminal.say(written.error().message());
  const Status open = enquiries_.open(plan_.job.log_directory);
  if (!open) log::warning("{}: `launch status`, `dump` and `cancel` will not work", open.error().message());
}

JobStatus Launcher::status() const {
  const TimePoint now = time_.now();
  JobStatus status{.job_id = plan_.job.job_id,
                   .phase = std::string(name_of(job_.phase())),
                   .waiting_for = job_.waiting_for(now),
                   .attempt = job_.attempt().value(),
                   .restart_count = job_.restart_count(),
                   .max_restarts = plan_.job.max_restarts,
                   .elapsed_seconds = in_seconds(now - started_),
                   .committed_step = ranks_.committed_step(),
                   .nodes = job_.members(),
                   .ranks = statuses_of(ranks_, job_.members(), now)};
  for (const auto& [at, text] : told_) status.events.push_back({in_seconds(now - at), text});
  return status;
}

void Launcher::cancel(bool now) {
  post(Cancelled{now});
}

std::vector<Rank> Launcher::ask_for_stacks() {
  std::vector<Rank> ranks;
  if (job_.phase() < Phase::kRunning || job_.phase() > Phase::kStopping) return ranks;
  for (const NodePlan& node : job_.members()) {
    const auto& session = agent(node.node).session;
    if (!session) continue;
    session->send(job_.attempt(), wire::DumpStacks{});
    for (std::int32_t local = 0; local < node.worker_count; ++local)
      ranks.emplace_back(node.first_rank.value() + local);
  }
  return ranks;
}

// Empty when there is nothing to wait for.
std::string Launcher::start_progress() const {
  StartProgress progress{.agents = agents_.size(), .waiting_for = job_.waiting_for(time_.now())};
  const bool workers_start = job_.phase() == Phase::kPreparing || job_.phase() == Phase::kRunning;
  for (const Agent& each : agents_) progress.agents_joined += each.joined ? 1U : 0U;
  for (const RankStatus& rank : statuses_of(ranks_, job_.members(), time_.now())) {
    progress.workers += workers_start ? 1U : 0U;
    progress.workers_started += rank.pid != 0 ? 1U : 0U;
  }
  const bool all_started = progress.workers_started == progress.workers;
  if (progress.waiting_for.empty() && (job_.phase() != Phase::kRunning || all_started)) return "";
  return progress_text(progress);
}

void Launcher::remember(std::string text) {
  told_.emplace_back(time_.now(), std::move(text));
  if (told_.size() > kToldLimit) told_.pop_front();
}

}  // namespace muster::launcher
