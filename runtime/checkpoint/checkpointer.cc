#include <filesystem>
#include <muster/checkpointer.h>
#include <muster/job.h>
#include <muster/section.h>
#include <optional>
#include <pthread.h>
#include <thread>

#include "common/base/log.h"
#include "runtime/checkpoint/content.h"
#include "runtime/checkpoint/restore.h"
#include "runtime/checkpoint/stop_agreement.h"
#include "runtime/control/step_time.h"

namespace muster {

namespace {

// For rank 0 to take a directory over.
constexpr auto kBeginTimeout = std::chrono::minutes(5);

bool same_directory(const std::string& left, const std::string& right) {
  std::error_code ignored;
  return left == right || std::filesystem::equivalent(left, right, ignored);
}

// The attempt that the launcher began in this directory, if it did.
Expected<std::optional<Attempt>> launchers_attempt(const Job& job, const CheckpointDirectory& directory) {
  if (job.checkpoint_dir().empty() || !same_directory(job.checkpoint_dir(), directory.path()))
    return std::nullopt;
  auto attempts = directory.attempts();
  if (!attempts) return std::unexpected(attempts.error());
  for (const AttemptRecord& record : *attempts) {
    if (record.attempt == Attempt(job.attempt())) return record.attempt;
  }
  return std::nullopt;
}

Expected<Attempt> attempt_for(const Job& job, const CheckpointDirectory& directory) {
  if (Status usable = directory.check_writable(); !usable) return std::unexpected(usable.error());
  auto given = launchers_attempt(job, directory);
  if (!given) return std::unexpected(given.error());
  if (*given) return **given;
  auto record = directory.begin_attempt(job.job_id());
  if (!record) return std::unexpected(record.error());
  return record->attempt;
}

// Rank 0 finds it out, the others are told.
Attempt agreed_attempt(const Job& job, const CheckpointDirectory& directory, Meeting& meeting) {
  if (meeting.rank() == 0) {
    const auto attempt = attempt_for(job, directory);
    meeting.announce(attempt ? std::to_string(attempt->value()) : "cannot: " + attempt.error().message());
    if (!attempt) throw std::runtime_error(attempt.error().message());
    return *attempt;
  }
  const auto word = meeting.listen(kBeginTimeout);
  if (!word)
    throw std::runtime_error("checkpoints: rank 0 does not say which attempt this is: " +
                             word.error().message());
  if (word->starts_with("cannot")) throw std::runtime_error("rank 0: " + word->substr(sizeof("cannot:")));
  // Its disk may be another than rank 0's.
  if (Status usable = directory.check_writable(); !usable) throw std::runtime_error(usable.error().message());
  return Attempt(std::stoull(*word));
}

}  // namespace

struct Checkpointer::State {
  State(const Job& a_job, const CheckpointerOptions& the_options)
      : job(a_job),
        options(the_options),
        meeting(a_job.store(), a_job.rank(), a_job.world_size()),
        stop(a_job.store(), a_job.rank(), a_job.world_size()) {}

  bool enabled() const { return !options.directory.empty(); }
  void start_save(TrainState& state);
  void write(const Safetensors& shard, std::int64_t step);
  bool settle();
  bool is_last_before_preemption();
  void leave();

  Job job;
  CheckpointerOptions options;
  Meeting meeting;  // the writer's while it runs
  StopAgreement stop;
  std::optional<CommitPlan> plan;
  std::int64_t steps = 0;
  std::optional<std::int64_t> last_saved;  // the step that was given to the writer last, or restored
  std::optional<std::int64_t> last_committed;
  int restores =
      0;          // with the step and its tries: the name of a save, the same on all ranks and never repeated
  int tries = 0;  // at saving last_saved

  std::thread writer;
  Status outcome;  // of the last save; the writer's while it runs
};

void Checkpointer::State::start_save(TrainState& state) {
  const InStepPart saving(kCheckpointPart);
  settle();
  SavedState saved;
  for (const auto& part : state.parts()) part->save(saved);
  Safetensors shard = gather_shard(saved, job.rank(), job.world_size());
  tries = last_saved == steps ? tries + 1 : 1;
  last_saved = steps;
  meeting.open(fmt::format("save/{}/{}/{}", restores, steps, tries));
  writer = std::thread([this, shard = std::move(shard), step = steps] { write(shard, step); });
}

void Checkpointer::State::write(const Safetensors& shard, std::int64_t step) {
  pthread_setname_np(pthread_self(), "muster-ckpt");
  try {
    outcome = commit_checkpoint(*plan, meeting, static_cast<std::uint64_t>(step), shard);
  } catch (const c10::Error& error) {  // the store is gone
    outcome = failure(ErrorCode::kInternal, "{}", error.what_without_backtrace());
  } catch (const std::exception& error) {  // memory is short
    outcome = failure(ErrorCode::kInternal, "{}", error.what());
  }
  if (outcome) {
    last_committed = step;
    if (job.rank() == 0) job.report(Event::kCommitted, step);
  } else if (outcome.error().code() == ErrorCode::kFenced) {
    if (job.rank() == 0) job.report(Event::kFenced, step, outcome.error().message());
  } else if (job.rank() == 0) {
    log::warning("the checkpoint of step {} failed: {}; training goes on, {}", step,
                 outcome.error().message(),
                 last_committed ? fmt::format("the newest one is that of step {}", *last_committed)
                                : "there is none yet");
  }
}

bool Checkpointer::State::settle() {
  if (writer.joinable()) {
    const auto waiting = section("checkpoint commit");
    writer.join();
  }
  if (!outcome && outcome.error().code() == ErrorCode::kFenced) throw FencedError(outcome.error().message());
  return outcome.has_value();
}

bool Checkpointer::State::is_last_before_preemption() {
  if (!job.preemption_noticed()) return false;
  const auto last = stop.ask(steps);
  if (last && *last < steps)
    log::warning("rank {} was told to stop after step {} when it had done step {}: the ranks are not in step",
                 job.rank(), *last, steps);
  return last == steps;
}

// If the save fails, training goes on, and the launcher stops it when the grace is over.
void Checkpointer::State::leave() {
  if (!settle()) return;
  job.report(Event::kPreempted, steps);
  throw Preempted(fmt::format("preempted: the checkpoint of step {} is committed", steps));
}

Checkpointer::Checkpointer(const Job& job, CheckpointerOptions options) {
  if (options.every < 1)
    throw std::invalid_argument(fmt::format("Checkpointer: every = {} must be at least 1", options.every));
  if (options.keep < 1)
    throw std::invalid_argument(fmt::format("Checkpointer: keep = {} must be at least 1", options.keep));
  if (options.directory.empty()) options.directory = job.checkpoint_dir();
  state_ = std::make_unique<State>(job, options);
  if (!state_->enabled()) {
    if (job.rank() == 0)
      log::warning("no checkpoints: neither --checkpoint-dir nor Checkpointer's .directory is given");
    return;
  }
  const CheckpointDirectory directory(options.directory);
  state_->plan = CommitPlan{.directory = directory,
                            .job = job.job_id(),
                            .attempt = agreed_attempt(job, directory, state_->meeting),
                            .keep = options.keep,
                            .timeout = options.commit_timeout};
  job.offer_preemption();
}

Checkpointer::~Checkpointer() {
  try {
    state_->settle();
  } catch (const FencedError& error) {
    log::warning("{}", error.what());
  }
  state_->job.end_steps();
}

std::int64_t Checkpointer::restore(TrainState& state) {
  if (!state_->enabled()) return 0;
  state_->settle();
  state_->outcome = {};
  const auto restoring = section("checkpoint restore");
  state_->meeting.open(fmt::format("restore/{}", ++state_->restores));
  const auto restored = restore_newest(*state_->plan, state_->meeting, state);
  if (!restored && restored.error().code() == ErrorCode::kFenced)
    throw FencedError(restored.error().message());
  if (!restored) throw std::runtime_error(restored.error().message());
  state_->steps = *restored ? static_cast<std::int64_t>((*restored)->step) : 0;
  state_->last_saved = state_->last_committed = *restored ? std::optional(state_->steps) : std::nullopt;
  if (*restored && state_->job.rank() == 0) state_->job.report(Event::kResumed, state_->steps);
  // Steps will follow: from here on the agent misses them.
  state_->job.report_step(state_->steps);
  return state_->steps;
}

void Checkpointer::step(TrainState& state) {
  ++state_->steps;
  state_->job.report_step(state_->steps);
  if (!state_->enabled()) return;
  const bool last = state_->is_last_before_preemption();
  if (last || state_->steps % state_->options.every == 0) state_->start_save(state);
  if (last) state_->leave();
}

std::int64_t Checkpointer::steps() const {
  return state_->steps;
}

bool Checkpointer::save(TrainState& state) {
  if (!state_->enabled()) return true;
  // Once more only if rank 0 has said that it failed: then all ranks do the same.
  const bool again = !state_->settle() && state_->outcome.error().code() == ErrorCode::kUnavailable;
  if (state_->last_saved != state_->steps || again) state_->start_save(state);
  return state_->settle();
}

bool Checkpointer::wait() {
  return state_->settle();
}

}  // namespace muster
