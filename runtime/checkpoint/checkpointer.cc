#include <c10/core/DeviceGuard.h>
#include <cmath>
#include <filesystem>
#include <fmt/ranges.h>
#include <muster/checkpoint/checkpointer.h>
#include <muster/comm/job.h>
#include <muster/rank/section.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/log.h"
#include "common/base/quiet_thread.h"
#include "runtime/checkpoint/beginning.h"
#include "runtime/checkpoint/commit.h"
#include "runtime/checkpoint/memory_tier.h"
#include "runtime/checkpoint/rank_file.h"
#include "runtime/checkpoint/rank_file_writing.h"
#include "runtime/checkpoint/restore.h"
#include "runtime/checkpoint/save_agreement.h"
#include "runtime/checkpoint/save_interval.h"
#include "runtime/checkpoint/stop_agreement.h"
#include "runtime/comm/job_state.h"
#include "runtime/comm/nccl/failure.h"
#include "runtime/rank/step_time.h"
#include "runtime/rank/trace.h"
#include "runtime/rank/uncaught.h"

namespace muster {

namespace {

// On every rank, and met again by any other attempt.
struct ForgottenRestore : std::logic_error, OnAllRanks {
  explicit ForgottenRestore(const std::string& text) : logic_error(text), OnAllRanks{.final = true} {}
};

// For the others to come to the save as well, however little time they have to write.
constexpr auto kLeastPatience = std::chrono::seconds(1);
constexpr auto kToldWait = std::chrono::seconds(1);  // of training for the disk

void warn_of_partial(const Restored& restored) {
  const auto warn = [&](std::string_view what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    log::warning("the checkpoint of step {} {}: {}", restored.id.step, what, fmt::join(names, ", "));
  };
  warn("lacks, so that the program's stays", restored.missing);
  warn("has, and the program does not ask for it", restored.left_over);
}

void check_options(const CheckpointerOptions& options) {
  const bool by_time = options.every_time > std::chrono::milliseconds(0) || options.every_auto;
  if (options.every < (by_time ? 0 : 1))
    throw std::invalid_argument(fmt::format("Checkpointer: every = {} must be at least {}", options.every,
                                            by_time ? "0 beside every_time or every_auto" : "1"));
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

bool is_world(const Group& group) {
  return group.size() == group.job().world_size();
}

// By their places in the group.
std::vector<int> ranks_of_this_node(const Group& group) {
  const Job job = group.job();
  const int first = state_of(job).world.first_rank_on_node();
  std::vector<int> places;
  for (int place = 0; place < group.size(); ++place) {
    const int rank = group.ranks()[static_cast<std::size_t>(place)];
    if (rank >= first && rank < first + job.local_world_size()) places.push_back(place);
  }
  return places;
}

void check_for(const Group& group, const CheckpointerOptions& options) {
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

struct Checkpointer::State {
  State(const Group& a_group, const CheckpointerOptions& the_options)
      : group(a_group),
        job(a_group.job()),
        options(the_options),
        meeting(a_group.store(), a_group.rank(), a_group.size()),
        stop(a_group.store(), a_group.rank(), a_group.size()),
        agreement(the_options.check_replicas,
                  std::max<std::chrono::milliseconds>(the_options.commit_timeout, kLeastPatience), {}),
        staging(the_options.staging_bytes, [device = job.device()](std::uint64_t size_bytes) {
          auto memory = allocate_staging(size_bytes);
          if (memory && device.is_cuda()) {
            // The writing thread has no GPU of its own, and would take memory of the first one.
            const c10::DeviceGuard guard(device);
            lock_pages(*memory);
          }
          return memory;
        }) {}

  bool enabled() const { return !options.directory.empty(); }
  // What is only read, as by an evaluation, is not this job's progress.
  bool tells_agent() const { return !options.read_only; }
  // What is said once, for all ranks; of a commit only if it is one of the job.
  bool leads() const { return group.rank() == 0; }
  bool leads_job() const { return leads() && is_world(group); }
  void require_restored() const;
  void start_save(TrainState& state);
  void wait_for_last();
  void hold_in_memory(TrainState& state);
  Expected<SavedState> gather(TrainState& state) const;
  Expected<std::shared_ptr<RankFile>> agree(TrainState& state);
  void prepare(TrainState& state);
  void stage(RankFile& image);
  void write(const Expected<std::shared_ptr<RankFile>>& image, std::int64_t step);
  void conclude(Status done, std::int64_t step);
  void remove_old_behind(std::int64_t newest);
  void warn_of_failure(std::int64_t step);
  void take_in_outcome();
  bool settle();
  bool is_last_before_preemption();
  bool is_due();
  bool hears_that_it_is_due();
  void leave();

  Group group;
  Job job;
  CheckpointerOptions options;
  Meeting meeting;  // the writer's while it runs
  StopAgreement stop;
  std::optional<CommitPlan> plan;  // none: nothing is written
  RestorePlan restore_plan{CheckpointDirectory(options.directory), {}, {}};
  std::optional<std::uint64_t> unread;  // the step that could be resumed from, until somebody has
  std::int64_t steps = 0;
  std::optional<std::int64_t> last_saved;  // the step that was given to the writer last, or restored
  std::optional<std::int64_t> last_committed;
  // With the step and its tries: the name of a save, the same on all ranks and never repeated.
  int restores = 0;
  int tries = 0;  // at saving last_saved
  bool has_told_stop = false;
  bool has_tried_to_leave = false;

  Status outcome;            // of the last save; the writer's while it runs
  bool has_refused = false;  // and has said so; likewise
  SaveAgreement agreement;
  std::optional<DirectoryUse> use;
  std::optional<Meeting> clock_meeting;  // by time: in which rank 0 says when to save
  std::optional<SaveInterval> interval;  // likewise; rank 0's
  std::int64_t next_look = 1;            // the step at which it says it
  TimePoint save_begun;
  Seconds held_up{};
  std::map<std::string, double> metrics;  // of rank 0
  Staging staging;
  std::unique_ptr<MemoryTier> memory;  // with .memory_every
  bool is_prepared = false;
  bool is_memory_prepared = false;
  bool has_told_wait = false;
  bool has_told_slow_disk = false;
  Background disk{"muster-disk", 2, /*yielding=*/true};
  Background writer{"muster-ckpt", 1, /*yielding=*/true};
  std::future<void> under_way;             // the writer's task
  std::optional<Seconds> committed_after;  // the writer's while it runs
};

void Checkpointer::State::require_restored() const {
  if (plan && unread && !options.start_over)
    throw ForgottenRestore(fmt::format(
        "Checkpointer: {} has a checkpoint of step {}, which would be lost: call restore() before the first "
        "step, or say .start_over = true",
        options.directory, *unread));
}

void Checkpointer::State::start_save(TrainState& state) {
  const InStepPart saving(kCheckpointPart);
  const Traced in_trace(TraceTrack::kCheckpoint, "save", "step", steps);
  wait_for_last();
  save_begun = Clock::now();
  is_prepared = true;
  tries = last_saved == steps ? tries + 1 : 1;
  last_saved = steps;
  meeting.open(fmt::format("save/{}/{}/{}", restores, steps, tries));
  auto image = agree(state);
  if (!image) {
    conclude(std::unexpected(image.error()), steps);
    return;
  }
  Status reserved = staging.reserve((*image)->size_bytes);
  if (reserved) staging.begin((*image)->size_bytes, job.local_world_size());
  Expected<std::shared_ptr<RankFile>> mine = *image;
  if (!reserved) mine = std::unexpected(reserved.error());
  try {
    plan->metrics = metrics;
    under_way = writer.submit([this, mine, step = steps] { write(mine, step); });
  } catch (...) {  // the others wait for a word of this rank
    write(failure(ErrorCode::kUnavailable, "cannot start the writing thread: {}", current_exception_text()),
          steps);
    return;
  }
  if (reserved) stage(**image);
  held_up = Clock::now() - save_begun;
}

// The state cannot be copied while the copy before is on its way to the disk.
void Checkpointer::State::wait_for_last() {
  const bool is_written = save_begun != TimePoint() && under_way.valid();
  const TimePoint due = Clock::now();
  settle();
  const Seconds waited = Clock::now() - due;
  if (is_written && waited >= kToldWait && leads() && !std::exchange(has_told_slow_disk, true))
    log::warning(
        "training waited {:.1f} s at step {} until the checkpoint of step {} was written: the disk is slower "
        "than saves follow each other",
        waited.count(), steps, last_saved.value_or(0));
}

void Checkpointer::State::hold_in_memory(TrainState& state) {
  const bool saves = memory && steps % options.memory_every == 0;
  const bool prepares = memory && !std::exchange(is_memory_prepared, true) && !saves;
  if (!saves && !prepares) return;
  const InStepPart saving(kCheckpointPart);
  const Traced in_trace(TraceTrack::kCheckpoint, saves ? "hold in memory" : "prepare", "step", steps);
  const std::string meeting_name = fmt::format("memory/{}/{}", restores, steps);
  if (saves)
    memory->save(gather(state), meeting_name, static_cast<std::uint64_t>(steps));
  else
    memory->prepare(gather(state), meeting_name, static_cast<std::uint64_t>(steps));
}

// What fails on this rank alone, as where memory is short, is its word in the meeting.
Expected<std::shared_ptr<RankFile>> Checkpointer::State::agree(TrainState& state) {
  const auto waiting = section("checkpoint commit");
  const auto saved = gather(state);
  const auto share = agreement.agree(meeting, saved);
  if (!share) return std::unexpected(share.error());
  if (!saved) return std::unexpected(saved.error());
  auto image = without_throwing([&] { return lay_out_rank_file(*saved, *share, group.rank()); });
  if (!image) return std::unexpected(image.error());
  return std::make_shared<RankFile>(*std::move(image));
}

// Parts may be collectives: none is left out because one before it has failed.
Expected<SavedState> Checkpointer::State::gather(TrainState& state) const {
  SavedState saved;
  Status gathered;
  for (const auto& part : state.parts()) {
    Status done = without_throwing([&]() -> Status {
      part->save(saved);
      return {};
    });
    if (gathered) gathered = std::move(done);
  }
  if (!gathered) return std::unexpected(gathered.error());
  if (!options.check_finite)
    for (auto& [key, tensor] : saved.tensors) tensor.finite = false;
  return saved;
}

// What the first save needs, before it: who writes what, and the memory for the copy. What fails will fail
// again then, and be told.
void Checkpointer::State::prepare(TrainState& state) {
  if (std::exchange(is_prepared, true)) return;
  settle();
  meeting.open(fmt::format("prepare/{}/{}", restores, steps));
  const auto image = agree(state);
  if (!image) return;
  try {
    under_way =
        writer.submit([this, size_bytes = (*image)->size_bytes] { (void)staging.reserve(size_bytes); });
  } catch (const std::system_error&) {
  }
}

// While the writing thread takes it away. Whatever happens, the training thread goes on.
void Checkpointer::State::stage(RankFile& image) {
  Status staged = without_throwing([&]() -> Status {
    stage_rank_file(image, staging);
    return {};
  });
  if (!staged) {
    log::warning("rank {} cannot copy its share of the checkpoint of step {}: {}", job.rank(), steps,
                 staged.error().message());
    staging.abandon();
  }
  if (staging.waited() > std::chrono::nanoseconds() && !std::exchange(has_told_wait, true))
    log::warning(
        "rank {} waited {:.1f} s for the disk: its share of a checkpoint, {} MiB, is larger than "
        ".staging_bytes, "
        "{} MiB",
        job.rank(), Seconds(staging.waited()).count(), image.size_bytes >> 20, staging.capacity() >> 20);
}

void Checkpointer::State::write(const Expected<std::shared_ptr<RankFile>>& image, std::int64_t step) {
  const Traced committing(TraceTrack::kWriting, "commit", "step", step);
  const auto write_mine = [&](const std::string& directory) -> Expected<RankContents> {
    const Traced writing(TraceTrack::kWriting, "write");
    if (!image) return std::unexpected(image.error());
    RankContents contents = std::move((*image)->contents);
    auto written = write_rank_file(directory, contents.files.front().name, (*image)->size_bytes, staging,
                                   disk, [&](std::uint64_t offset, std::span<const std::byte> bytes) {
                                     return check_all_finite(**image, offset, bytes);
                                   });
    if (!written) return std::unexpected(written.error());
    contents.files.front() = *std::move(written);
    if (Status whole = check_groups(); !whole) return std::unexpected(whole.error());
    return contents;
  };
  // Throws if the store is gone.
  Status done = without_throwing(
      [&] { return commit_checkpoint(*plan, meeting, static_cast<std::uint64_t>(step), write_mine); });
  staging.abandon();  // nobody takes anything more
  const bool removes = done && leads();
  conclude(std::move(done), step);
  if (removes) remove_old_behind(step);
}

// To free gigabytes takes a disk a tenth of a second and more, for which nobody waits who waits for the
// commit.
void Checkpointer::State::remove_old_behind(std::int64_t newest) {
  const auto warn = [](const Error& why) { log::warning("an old checkpoint stays: {}", why.message()); };
  auto old = old_ones(*plan, static_cast<std::uint64_t>(newest));
  if (!old) return warn(old.error());
  if (old->empty()) return;
  (void)writer.submit([directory = plan->directory, old = *std::move(old), warn] {
    if (const Status removed = remove_all(directory, old); !removed) warn(removed.error());
  });
}

void Checkpointer::State::conclude(Status done, std::int64_t step) {
  outcome = std::move(done);
  if (outcome) {
    last_committed = step;
    has_refused = false;
    committed_after = Clock::now() - save_begun;
    if (leads_job()) reports_of(job).send("committed", step);
  } else if (outcome.error().code() == ErrorCode::kFenced) {
    if (leads_job()) reports_of(job).send("fenced", step, outcome.error().message());
  } else if (leads()) {
    warn_of_failure(step);
  }
}

void Checkpointer::State::warn_of_failure(std::int64_t step) {
  const std::string newest = last_committed
                                 ? fmt::format("the newest one is that of step {}", *last_committed)
                                 : "there is none yet";
  const std::string& why = outcome.error().message();
  if (outcome.error().code() != ErrorCode::kCorrupt) {
    log::warning("the checkpoint of step {} failed: {}; training goes on, {}", step, why, newest);
  } else if (!std::exchange(has_refused, true)) {
    log::warning("the checkpoint of step {} is not committed: {}; {}, and no other follows while that is so",
                 step, why, newest);
  }
}

void Checkpointer::State::take_in_outcome() {
  if (under_way.valid()) {
    const auto waiting = section("checkpoint commit");
    std::exchange(under_way, {}).get();
  }
  if (interval && committed_after) interval->saved(save_begun, held_up, *std::exchange(committed_after, {}));
}

// A fenced attempt ends here, so on all ranks at the same step.
bool Checkpointer::State::settle() {
  take_in_outcome();
  if (!outcome && outcome.error().code() == ErrorCode::kFenced) throw FencedError(outcome.error().message());
  return outcome.has_value();
}

bool Checkpointer::State::is_last_before_preemption() {
  if (has_tried_to_leave || !reports_of(job).preemption_noticed()) return false;
  const auto last = stop.ask(steps);
  if (last && leads_job() && !std::exchange(has_told_stop, true)) reports_of(job).send("saving", *last);
  if (!last || *last > steps) return false;
  has_tried_to_leave = true;
  if (*last < steps)
    log::warning("rank {} was told to stop after step {} when it had done step {}: the ranks are not in step",
                 job.rank(), *last, steps);
  return *last == steps;
}

bool Checkpointer::State::is_due() {
  const bool by_step = options.every > 0 && steps % options.every == 0;
  const bool by_time = clock_meeting && steps >= next_look && hears_that_it_is_due();
  return by_step || by_time;
}

// All ranks, at the same steps: rank 0 has said at which.
bool Checkpointer::State::hears_that_it_is_due() {
  clock_meeting->open(fmt::format("due/{}/{}", restores, steps));
  SaveInterval::Look look{.saves = false, .next_step = steps + 1};
  if (leads()) {
    // What the save before has cost, once that is known. If it was fenced, the next one says so: now the
    // others wait for a word.
    if (under_way.valid() && under_way.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
      take_in_outcome();
    look = interval->look(steps, Clock::now());
    if (look.saves) {
      if (const auto why = interval->explanation()) fmt::print(stderr, "muster: {}\n", *why);
    }
    clock_meeting->announce(nlohmann::json{{"saves", look.saves}, {"next", look.next_step}}.dump());
  } else {
    const auto word = clock_meeting->listen(options.patience);
    if (!word)
      throw std::runtime_error("checkpoints: rank 0 does not say whether to save: " + word.error().message());
    const auto said = nlohmann::json::parse(*word);
    look = {.saves = said.at("saves"), .next_step = said.at("next")};
  }
  next_look = look.next_step;
  return look.saves;
}

// If the save fails, training goes on, and the launcher stops it when the grace is over: the next one may
// succeed. One that is refused would be again, on all ranks.
void Checkpointer::State::leave() {
  if (!settle()) {
    if (outcome.error().code() != ErrorCode::kCorrupt) return;
    throw CheckpointError("asked to leave, and nothing can be saved: " + outcome.error().message(),
                          {.told = !leads()});
  }
  reports_of(job).send_profile();
  reports_of(job).send("preempted", steps);
  throw Preempted(fmt::format("preempted: the checkpoint of step {} is committed", steps));
}

Checkpointer::Checkpointer(const Group& group, CheckpointerOptions options) {
  check_options(options);
  check_for(group, options);
  const Job job = group.job();
  if (options.directory.empty()) options.directory = job.checkpoint_dir();
  state_ = std::make_unique<State>(group, options);
  if (!state_->enabled()) {
    if (state_->leads())
      log::warning("no checkpoints: neither --checkpoint-dir nor Checkpointer's .directory is given");
    return;
  }
  if (options.read_only) return;
  const CheckpointDirectory directory(options.directory);
  state_->use.emplace(job, options.directory);
  const Beginning begun = begin_together(job, directory, state_->meeting);
  state_->plan = CommitPlan{.directory = directory,
                            .job = job.job_id(),
                            .attempt = begun.attempt,
                            .retention = {.last = static_cast<std::size_t>(options.keep),
                                          .every = static_cast<std::uint64_t>(options.keep_every),
                                          .best = static_cast<std::size_t>(options.keep_best)},
                            .timeout = options.commit_timeout,
                            .patience = options.patience};
  if (!options.best_by.empty())
    state_->plan->retention.best_by =
        BestBy{.metric = options.best_by, .most = options.best == CheckpointerOptions::Best::kGreatest};
  state_->plan->topology = {{"nodes", std::to_string(job.node_count())}};
  if (options.every_auto || options.every_time > std::chrono::milliseconds(0)) {
    state_->clock_meeting.emplace(group.store(), group.rank(), group.size());
    const Seconds expected = Seconds(options.mean_time_to_failure) / job.node_count();
    state_->interval.emplace(options.every_auto ? std::nullopt : std::optional<Seconds>(options.every_time),
                             mean_time_between_failures(expected, job.restart_count(), begun.job_age));
  }
  if (options.memory_every > 0)
    state_->memory =
        std::make_unique<MemoryTier>(job, MemoryTier::Setting{.attempt = begun.attempt,
                                                              .directory = options.directory,
                                                              .check_replicas = options.check_replicas,
                                                              .timeout = options.commit_timeout});
  state_->restore_plan.memory = state_->memory.get();
  state_->restore_plan.attempt = begun.attempt;
  if (options.start_over) state_->restore_plan.only = begun.of_this_job;
  state_->unread = begun.resumable;
  reports_of(job).offer_preemption();
}

Checkpointer::~Checkpointer() {
  try {
    state_->settle();
  } catch (const FencedError& error) {
    log::warning("{}", error.what());
  }
  if (!state_->tells_agent()) return;
  // No more steps follow: from the first to here the agent misses them.
  Reports& reports = reports_of(state_->job);
  reports.send("idle", reports.newest_step());
}

std::int64_t Checkpointer::restore(TrainState& state, const RestoreOptions& options) {
  if (!state_->enabled()) return 0;
  state_->settle();
  state_->outcome = {};
  const auto restoring = section("checkpoint restore");
  const Traced in_trace(TraceTrack::kCheckpoint, "restore");
  state_->meeting.open(fmt::format("restore/{}", ++state_->restores));
  state_->restore_plan.patience = state_->options.patience;
  state_->restore_plan.rules = {.rank = state_->group.rank(),
                                .readers = ranks_of_this_node(state_->group),
                                .strict = options.strict,
                                .convert = options.convert,
                                .rename = options.rename};
  const auto restored = restore_newest(state_->restore_plan, state_->meeting, state);
  if (!restored && restored.error().code() == ErrorCode::kFenced)
    throw FencedError(restored.error().message());
  if (!restored) {
    const ErrorCode code = restored.error().code();
    const bool misfit = code == ErrorCode::kInvalidArgument;
    const bool of_rank_0 = misfit || code == ErrorCode::kCorrupt;
    throw CheckpointError(restored.error().message(),
                          {.final = misfit, .told = of_rank_0 && !state_->leads()});
  }
  state_->unread.reset();
  state_->steps = *restored ? static_cast<std::int64_t>((*restored)->id.step) : 0;
  if (*restored && !options.strict && state_->leads()) warn_of_partial(**restored);
  const bool from_memory = *restored && (*restored)->from_memory;
  if (from_memory) state_->memory->keep((*restored)->id);
  state_->last_saved = state_->last_committed =
      *restored && !from_memory ? std::optional(state_->steps) : std::nullopt;
  if (!state_->tells_agent()) return state_->steps;
  if (*restored && state_->leads_job())
    reports_of(state_->job).send("resumed", state_->steps, from_memory ? "memory" : "");
  step_time().meets(state_of(state_->group).key);
  // Steps will follow: from here on the agent misses them.
  reports_of(state_->job).step(state_->steps);
  return state_->steps;
}

void Checkpointer::step(TrainState& state) {
  state_->require_restored();
  ++state_->steps;
  if (state_->tells_agent()) reports_of(state_->job).step(state_->steps);
  if (!state_->plan) return;
  const bool last = state_->is_last_before_preemption();
  state_->prepare(state);
  if (state_->is_due() || last)
    state_->start_save(state);
  else
    state_->hold_in_memory(state);
  if (last) state_->leave();
}

std::int64_t Checkpointer::steps() const {
  return state_->steps;
}

bool Checkpointer::save(TrainState& state) {
  if (!state_->enabled()) return true;
  if (!state_->plan) throw std::logic_error("Checkpointer: save() of one that is read_only");
  state_->require_restored();
  // Once more only if rank 0 has said that it failed: then all ranks do the same.
  const auto said_by_rank_0 = [](ErrorCode code) {
    return code == ErrorCode::kUnavailable || code == ErrorCode::kCorrupt;
  };
  const bool again = !state_->settle() && said_by_rank_0(state_->outcome.error().code());
  if (state_->last_saved != state_->steps || again) state_->start_save(state);
  return state_->settle();
}

void Checkpointer::report(const std::string& metric, double value) {
  if (!std::isfinite(value))
    throw std::invalid_argument(
        fmt::format("Checkpointer: report(\"{}\", {}) must be a finite number", metric, value));
  state_->metrics[metric] = value;
}

bool Checkpointer::wait() {
  return state_->settle();
}

}  // namespace muster
