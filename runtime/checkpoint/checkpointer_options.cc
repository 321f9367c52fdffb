#include "runtime/checkpoint/checkpointer_options.h"

#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <stdexcept>

namespace muster {

namespace {

void check_values(const CheckpointerOptions& options) {
  const bool by_time = saves_by_time(options);
  if (options.every < (by_time ? 0 : 1))
    throw std::invalid_argument(fmt::format("Checkpointer: every = {} must be at least {}", options.every,
                                            by_time ? "0 with every_time or every_auto" : "1"));
  if (options.every_time < std::chrono::milliseconds(0))
    throw std::invalid_argument(
        fmt::format("Checkpointer: every_time = {} ms must not be negative", options.every_time.count()));
  if (options.every_auto && options.every_time > std::chrono::milliseconds(0))
    throw std::invalid_argument("Checkpointer: every_time and every_auto exclude each other");
  if (options.every_auto && options.mean_time_to_failure <= std::chrono::seconds(0))
    throw std::invalid_argument("Checkpointer: mean_time_to_failure must be more than 0");
  if (options.memory_every < 0)
    throw std::invalid_argument(
        fmt::format("Checkpointer: memory_every = {} must not be negative", options.memory_every));
  if (options.keep_every < 0)
    throw std::invalid_argument(
        fmt::format("Checkpointer: keep_every = {} must not be negative", options.keep_every));
  if (options.keep_best < 0)
    throw std::invalid_argument(
        fmt::format("Checkpointer: keep_best = {} must not be negative", options.keep_best));
  if (options.keep_best > 0 && options.best_by.empty())
    throw std::invalid_argument("Checkpointer: keep_best needs the name of a metric in best_by");
  if (options.staging_bytes < 1)
    throw std::invalid_argument(
        "Checkpointer: staging_bytes = 0 leaves no room for a copy; 8 MiB is the least that is used");
  if (options.keep < 1)
    throw std::invalid_argument(fmt::format("Checkpointer: keep = {} must be at least 1", options.keep));
  if (options.read_only && options.start_over)
    throw std::invalid_argument("Checkpointer: read_only and start_over exclude each other");
}

// A group of only some of the job's ranks must not write into the checkpoint directory of the whole job.
void check_group(const Group& group, const CheckpointerOptions& options) {
  if (is_world(group)) return;
  const std::string launchers = group.job().checkpoint_dir();
  std::error_code ignored;
  if (options.directory.empty() || options.directory == launchers ||
      std::filesystem::equivalent(options.directory, launchers, ignored))
    throw std::invalid_argument(
        fmt::format("Checkpointer: the {} is not the whole job: .directory must name one of its own",
                    group.description()));
  if (options.memory_every > 0)
    throw std::invalid_argument(fmt::format(
        "Checkpointer: the {} is not the whole job: .memory_every must be 0", group.description()));
}

}  // namespace

bool is_world(const Group& group) {
  return group.size() == group.job().world_size();
}

bool saves_by_time(const CheckpointerOptions& options) {
  return options.every_time > std::chrono::milliseconds(0) || options.every_auto;
}

void check_options(const Group& group, const CheckpointerOptions& options) {
  check_values(options);
  check_group(group, options);
}

CommitPlan plan_of(const CheckpointerOptions& options, const Job& job, Attempt attempt) {
  CommitPlan plan{.directory = CheckpointDirectory(options.directory),
                  .job = job.job_id(),
                  .attempt = attempt,
                  .retention = {.last = static_cast<std::size_t>(options.keep),
                                .every = static_cast<std::uint64_t>(options.keep_every),
                                .best = static_cast<std::size_t>(options.keep_best),
                                .damaged = true},
                  .timeout = options.commit_timeout,
                  .patience = options.patience};
  if (!options.best_by.empty())
    plan.retention.best_by =
        BestBy{.metric = options.best_by, .most = options.best == CheckpointerOptions::Best::kGreatest};
  plan.topology = {{"nodes", std::to_string(job.node_count())}};
  return plan;
}

SaveSetting setting_of(const CheckpointerOptions& options, const Job& job, const Beginning& begun) {
  SaveSetting setting{.every = options.every,
                      .memory_every = options.memory_every,
                      .interval = {},
                      .unread = begun.resumable};
  if (saves_by_time(options)) {
    const Seconds expected = Seconds(options.mean_time_to_failure) / job.node_count();
    setting.interval.emplace(options.every_auto ? std::nullopt : std::optional<Seconds>(options.every_time),
                             mean_time_between_failures(expected, job.restart_count(), begun.job_age));
  }
  return setting;
}

}  // namespace muster
