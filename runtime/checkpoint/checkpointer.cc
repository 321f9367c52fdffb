#include <cmath>
#include <fmt/ranges.h>
#include <muster/checkpoint/checkpointer.h>
#include <muster/comm/job.h>
#include <muster/rank/section.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/base/log.h"
#include "runtime/checkpoint/beginning.h"
#include "runtime/checkpoint/checkpointer_options.h"
#include "runtime/checkpoint/disk_save.h"
#include "runtime/checkpoint/memory_tier.h"
#include "runtime/checkpoint/restore.h"
#include "runtime/checkpoint/save_agreement.h"
#include "runtime/checkpoint/save_policy.h"
#include "runtime/comm/job_state.h"
#include "runtime/rank/step_time.h"
#include "runtime/rank/trace.h"
#include "runtime/rank/uncaught.h"

namespace muster {

namespace {

// If one rank throws this error, all ranks throw it. The error is final: the job must not be restarted,
// because every later attempt would throw it, too.
struct ForgottenRestore : std::logic_error, OnAllRanks {
  explicit ForgottenRestore(const std::string& text) : logic_error(text), OnAllRanks{.final = true} {}
};

// At a save, the ranks wait for each other at least this long, even if .commit_timeout is shorter.
constexpr auto kLeastPatience = std::chrono::seconds(1);
constexpr auto kToldWait = std::chrono::seconds(1);  // rank 0 warns if training waits this long for the disk

void warn_of_partial(const Restored& restored) {
  const auto warn = [&](std::string_view what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    log::warning("the checkpoint of step {} {}: {}", restored.id.step, what, fmt::join(names, ", "));
  };
  warn("does not have these names, which stay as they are in the program", restored.missing);
  warn("has these names, which the program does not ask for", restored.left_over);
}

// Some members of the group run on this node. Returns their places in the group.
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

}  // namespace

// Only the training thread uses a State. A background thread gets a DiskSave from the State, and uses only
// the DiskSave.
//
// Invariants:
// - `policy` decides when to save. The functions of State do what it says, and tell it what has happened.
// - A save takes the meeting in begin_save() and gives it back in take_in(). Between these two, `meeting` is
//   null.
// - If there is no directory, or if the Checkpointer is read_only, `writing` is null. Then step() only counts
//   the steps.
struct Checkpointer::State {
  // Has the members of a Checkpointer that are only needed to write checkpoints. Only the training thread
  // uses them. There are two exceptions: `failed`, and the members of `writer`.
  //
  // Invariants: `plan` is the same for all saves, except for its metrics. These are the metrics that were
  // reported last. All ranks construct these members in this order. The order matters, because the first
  // Meeting of a rank meets the first Meeting of every other rank, and so on.
  struct Writing {
    Writing(const Group& group, const CheckpointerOptions& options, const Beginning& begun,
            std::unique_ptr<DirectoryUse> the_use)
        : use(std::move(the_use)),
          plan(plan_of(options, group.job(), begun.attempt)),
          stop(group.store(), group.rank(), group.size()),
          agreement(options.check_replicas,
                    std::max<std::chrono::milliseconds>(options.commit_timeout, kLeastPatience), {}),
          writer(group.job(), options.staging_bytes) {
      if (saves_by_time(options)) clock.emplace(group.store(), group.rank(), group.size());
      if (options.memory_every == 0) return;
      memory = std::make_unique<MemoryTier>(group.job(),
                                            MemoryTier::Setting{.attempt = begun.attempt,
                                                                .directory = options.directory,
                                                                .check_replicas = options.check_replicas,
                                                                .timeout = options.commit_timeout});
    }

    std::unique_ptr<DirectoryUse> use;
    CommitPlan plan;
    StopAgreement stop;
    SaveAgreement agreement;
    std::optional<Meeting> clock;        // for saves by time: rank 0 says there whether one is due
    std::unique_ptr<MemoryTier> memory;  // null without .memory_every
    FailedSaves failed;                  // the save under way uses it
    DiskWriter writer;
    bool has_told_slow_disk = false;
  };

  State(const Group& a_group, const CheckpointerOptions& the_options)
      : group(a_group),
        job(a_group.job()),
        options(the_options),
        meeting(std::make_unique<Meeting>(a_group.store(), a_group.rank(), a_group.size())) {}

  bool enabled() const { return !options.directory.empty(); }
  // Whether this rank reports its steps to the agent as progress of the job. A program that only reads the
  // checkpoints, for example to evaluate a model, must not do so.
  bool tells_agent() const { return !options.read_only; }
  bool leads() const { return group.rank() == 0; }               // this rank reports for the group
  bool leads_job() const { return leads() && is_world(group); }  // this rank reports for the job
  void require_restored() const;

  void perform(const SaveDecision& decision, TrainState& state);
  void begin_save(TrainState& state);
  void use_memory(bool saves, TrainState& state);
  void prepare(TrainState& state);
  void leave();
  void hear_stop();
  void hear_clock();

  Expected<SavedState> gather(TrainState& state) const;
  Expected<RankFile> agree(TrainState& state);
  void wait_for_last();
  void take_in();
  bool settle();

  Group group;
  Job job;
  CheckpointerOptions options;
  std::unique_ptr<Meeting> meeting;
  RestorePlan restore_plan{CheckpointDirectory(options.directory), {}, {}};
  SavePolicy policy;
  std::unique_ptr<Writing> writing;
};

void Checkpointer::State::require_restored() const {
  const auto unread = policy.unread();
  if (unread && !options.start_over)
    throw ForgottenRestore(fmt::format(
        "Checkpointer: {} has a checkpoint of step {}, which would be lost: call restore() before the first step, "
        "or say .start_over = true",
        options.directory, *unread));
}

void Checkpointer::State::perform(const SaveDecision& decision, TrainState& state) {
  using enum SaveDecision::Action;
  if (decision.action != kNothing) log::debug("checkpoints: step {}: {}", policy.steps(), decision.reason);
  switch (decision.action) {
    case kNothing: break;
    case kSave: begin_save(state); break;
    case kHoldInMemory: use_memory(/*saves=*/true, state); break;
    case kPrepareMemory: use_memory(/*saves=*/false, state); break;
  }
  if (decision.leaves) leave();
}

void Checkpointer::State::begin_save(TrainState& state) {
  const InStepPart saving(kCheckpointPart);
  const Traced in_trace(TraceTrack::kCheckpoint, "save", "step", policy.steps());
  wait_for_last();
  meeting->open(policy.on(SaveBegun{}, Clock::now()));
  auto save = std::make_unique<DiskSave>(DiskSave{.job = job,
                                                  .step = policy.steps(),
                                                  .plan = writing->plan,
                                                  .leads = leads(),
                                                  .leads_job = leads_job(),
                                                  .newest_on_disk = policy.newest_committed(),
                                                  .is_refusal_known = policy.is_refusing(),
                                                  .failed = &writing->failed});
  auto file = agree(state);
  if (!file) {
    save->end(std::unexpected(file.error()), Clock::now());
    policy.on(SaveEnded{.outcome = save->outcome, .when = save->ended_at});
    return;
  }
  save->meeting = std::move(meeting);
  writing->writer.begin(std::move(save), *std::move(file));
  policy.on(StateCopied{}, Clock::now());
}

// Waits for the previous save, because the state cannot be copied while the staging memory holds that save.
void Checkpointer::State::wait_for_last() {
  const bool is_writing = writing->writer.is_writing();
  const TimePoint due = Clock::now();
  settle();
  const Seconds waited = Clock::now() - due;
  if (is_writing && waited >= kToldWait && leads() && !std::exchange(writing->has_told_slow_disk, true))
    log::warning(
        "training waited {:.1f} s at step {} until the checkpoint of step {} was written: "
        "the disk is too slow for so many saves",
        waited.count(), policy.steps(), policy.last_tried().value_or(0));
}

void Checkpointer::State::use_memory(bool saves, TrainState& state) {
  const InStepPart saving(kCheckpointPart);
  const Traced in_trace(TraceTrack::kCheckpoint, saves ? "hold in memory" : "prepare", "step",
                        policy.steps());
  const std::string name = policy.name_of_step("memory");
  const auto step = static_cast<std::uint64_t>(policy.steps());
  if (saves)
    writing->memory->save(gather(state), name, step);
  else
    writing->memory->prepare(gather(state), name, step);
}

// All ranks agree which rank writes which part of the state. Returns the file that this rank writes. If
// gather() fails on this rank, the agreement fails on all ranks, with the error of gather().
Expected<RankFile> Checkpointer::State::agree(TrainState& state) {
  const auto waiting = section("checkpoint commit");
  const auto saved = gather(state);
  const auto share = writing->agreement.agree(*meeting, saved);
  if (!share) return std::unexpected(share.error());
  if (!saved) return std::unexpected(saved.error());
  return without_throwing([&] { return lay_out_rank_file(*saved, *share, group.rank()); });
}

// Collects the state of all parts. It saves all parts, even if one of them fails. The reason is that a part
// can use collectives. If this rank left out such a part, the other ranks would wait in its collectives.
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

// Does the slow parts of the first save before training begins: the ranks agree which rank writes what, and
// each rank gets the memory for its copy. prepare() does not report a failure, because the first save then
// fails in the same way and reports it.
void Checkpointer::State::prepare(TrainState& state) {
  settle();
  meeting->open(policy.name_of_step("prepare"));
  if (const auto file = agree(state)) writing->writer.reserve(file->layout.size_bytes);
}

// Waits until the current save has ended. Then takes the meeting back from it, and tells the policy the
// outcome of the save.
void Checkpointer::State::take_in() {
  const auto save = writing ? writing->writer.take() : nullptr;
  if (save == nullptr) return;
  meeting = std::move(save->meeting);
  policy.on(SaveEnded{.outcome = save->outcome, .when = save->ended_at});
}

// Waits until the current save has ended. Returns true if the last save succeeded. If a newer attempt has
// begun, this function throws FencedError on all ranks, at the same step.
bool Checkpointer::State::settle() {
  take_in();
  const Status& outcome = policy.outcome();
  if (!outcome && outcome.error().code() == ErrorCode::kFenced) throw FencedError(outcome.error().message());
  return outcome.has_value();
}

void Checkpointer::State::hear_stop() {
  const auto last = writing->stop.ask(policy.steps());
  const auto news = policy.on(StopHeard{.step = last});
  if (news.is_new && leads_job()) reports_of(job).send("saving", *last);
  if (news.is_missed)
    log::warning("rank {} was told to stop after step {} when it had done step {}: the ranks are not in step",
                 job.rank(), *last, policy.steps());
}

// Tells all ranks what rank 0 has seen on its clock. Rank 0 has announced the step after which it looks at
// its clock. So all ranks call this function after the same step.
void Checkpointer::State::hear_clock() {
  writing->clock->open(policy.name_of_step("due"));
  SaveInterval::Look look;
  if (leads()) {
    // If the last save has ended, the policy learns its outcome before it decides, because the time between
    // two saves depends on how long a save takes. The outcome may be that a newer attempt has begun. Even
    // then, this code does not throw, because the other ranks wait for rank 0's answer. The next save then
    // throws on all ranks.
    if (writing->writer.has_ended()) take_in();
    look = policy.look(Clock::now());
    if (look.saves) {
      if (const auto why = policy.explain_interval()) fmt::print(stderr, "muster: {}\n", *why);
    }
    writing->clock->announce(nlohmann::json{{"saves", look.saves}, {"next", look.next_step}}.dump());
  } else {
    const auto word = writing->clock->listen(options.patience);
    if (!word)
      throw std::runtime_error("checkpoints: rank 0 does not say whether to save: " + word.error().message());
    const auto said = nlohmann::json::parse(*word);
    look = {.saves = said.at("saves"), .next_step = said.at("next")};
  }
  policy.on(ClockHeard{.look = look});
}

void Checkpointer::State::leave() {
  settle();
  switch (policy.leaving()) {
    case SavePolicy::Leaving::kGoesOn: return;
    case SavePolicy::Leaving::kRefused:
      throw CheckpointError("asked to leave, and nothing can be saved: " + policy.outcome().error().message(),
                            {.told = !leads()});
    case SavePolicy::Leaving::kLeaves: break;
  }
  reports_of(job).send_profile();
  reports_of(job).send("preempted", policy.steps());
  throw Preempted(fmt::format("preempted: the checkpoint of step {} is committed", policy.steps()));
}

Checkpointer::Checkpointer(const Group& group, CheckpointerOptions options) {
  check_options(group, options);
  const Job job = group.job();
  if (options.directory.empty()) options.directory = job.checkpoint_dir();
  state_ = std::make_unique<State>(group, options);
  State& my = *state_;
  if (!my.enabled()) {
    if (my.leads())
      log::warning("no checkpoints: neither --checkpoint-dir nor Checkpointer's .directory is given");
    return;
  }
  if (options.read_only) return;
  auto use = std::make_unique<DirectoryUse>(job, options.directory);
  const Beginning begun = begin_together(job, CheckpointDirectory(options.directory), *my.meeting);
  my.policy = SavePolicy(setting_of(options, job, begun));
  my.writing = std::make_unique<State::Writing>(group, options, begun, std::move(use));
  my.restore_plan.memory = my.writing->memory.get();
  my.restore_plan.attempt = begun.attempt;
  if (options.start_over) my.restore_plan.only = begun.of_this_job;
  reports_of(job).offer_preemption();
}

Checkpointer::~Checkpointer() {
  try {
    state_->settle();
  } catch (const FencedError& error) {
    log::warning("{}", error.what());
  }
  if (state_->writing) tell_failed_saves(state_->writing->failed);
  if (!state_->tells_agent()) return;
  // This report tells the agent that no more steps follow.
  Reports& reports = reports_of(state_->job);
  reports.send("idle", reports.newest_step());
}

std::int64_t Checkpointer::restore(TrainState& state, const RestoreOptions& options) {
  State& my = *state_;
  if (!my.enabled()) return 0;
  my.settle();
  const auto restoring = section("checkpoint restore");
  const Traced in_trace(TraceTrack::kCheckpoint, "restore");
  my.meeting->open(my.policy.on(RestoreBegun{}));
  my.restore_plan.patience = my.options.patience;
  my.restore_plan.rules = {.rank = my.group.rank(),
                           .readers = ranks_of_this_node(my.group),
                           .strict = options.strict,
                           .convert = options.convert,
                           .rename = options.rename};
  const auto restored = restore_newest(my.restore_plan, *my.meeting, state);
  if (!restored && restored.error().code() == ErrorCode::kFenced)
    throw FencedError(restored.error().message());
  if (!restored) {
    const ErrorCode code = restored.error().code();
    const bool misfit = code == ErrorCode::kInvalidArgument;
    const bool of_rank_0 = misfit || code == ErrorCode::kCorrupt;
    throw CheckpointError(restored.error().message(), {.final = misfit, .told = of_rank_0 && !my.leads()});
  }
  const std::optional<Restored>& found = *restored;
  const bool from_memory = found && found->from_memory;
  my.policy.on(RestoreEnded{.step = found ? static_cast<std::int64_t>(found->id.step) : 0,
                            .is_on_disk = found && !from_memory});
  if (found && !options.strict && my.leads()) warn_of_partial(*found);
  if (from_memory) my.writing->memory->keep(found->id);
  if (!my.tells_agent()) return my.policy.steps();
  Reports& reports = reports_of(my.job);
  if (found && my.leads_job()) reports.send("resumed", my.policy.steps(), from_memory ? "memory" : "");
  step_time().meets(state_of(my.group).key);
  // The agent learns from this report that steps of training will follow.
  reports.step(my.policy.steps());
  return my.policy.steps();
}

void Checkpointer::step(TrainState& state) {
  State& my = *state_;
  my.require_restored();
  Reports& reports = reports_of(my.job);
  const auto questions = my.policy.on(StepDone{.is_preemption_noticed = reports.preemption_noticed()});
  if (my.tells_agent()) reports.step(my.policy.steps());
  if (!my.writing) return;
  if (questions.stop) my.hear_stop();
  if (questions.prepare) my.prepare(state);
  if (questions.clock) my.hear_clock();
  my.perform(my.policy.after_step(), state);
}

std::int64_t Checkpointer::steps() const {
  return state_->policy.steps();
}

bool Checkpointer::save(TrainState& state) {
  State& my = *state_;
  if (!my.enabled()) return true;
  if (!my.writing) throw std::logic_error("Checkpointer: save() of one that is read_only");
  my.require_restored();
  my.settle();
  my.perform(my.policy.on_request(), state);
  return my.settle();
}

void Checkpointer::report(const std::string& metric, double value) {
  if (!state_->writing) return;
  auto& metrics = state_->writing->plan.metrics;
  if (std::isfinite(value))
    metrics[metric] = value;
  else
    metrics.erase(metric);
}

bool Checkpointer::wait() {
  return state_->settle();
}

}  // namespace muster
