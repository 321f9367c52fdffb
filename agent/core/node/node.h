// All ranks of one node through the attempts of a job: what the agent does about each thing that happens.
//
// Node answers every order of the launcher, stops workers (signal, grace, KILL), declares the node empty only
// when the last process of the attempt has ended, and stops by itself when the launcher stays away. Decisions
// only: events come with the time, actions go to the performer (agent.h), in order. Owned by one thread.
//
// A worker that cannot be executed although the program was found (wrong format) refuses the attempt: the
// ranks that were already started are killed, and WorkersGone follows. Restarting would not help, so it is no
// worker's exit. A worker that survives SIGKILL is named to the launcher; the node is not empty without it.
// Another process that survives it is named as well, and then not waited for: it may be another user's.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/core/node/worker.h"
#include "common/base/clock.h"
#include "common/base/rank_range.h"
#include "common/wire/messages.h"

namespace muster::agent {

// What the launcher said.
struct Welcomed {
  wire::JobSpec job;
};
struct AttemptRequested {
  Attempt attempt;
  wire::PrepareAttempt plan;
};
struct StandByRequested {
  wire::StandBy likely;
};
struct StartRequested {
  Attempt attempt;
  wire::StartWorkers start;
};
struct StopRequested {
  Attempt attempt;
  wire::StopWorkers stop;
};
struct SignalRequested {  // for the workers, which go on
  Attempt attempt;
  std::int32_t signal = 0;
};
struct LeaveRequested {
  std::string reason;
  bool launcher_waits = false;  // not before LogsSent, and until what workers held in memory is on the disk
};
struct LogsSent {};        // the launcher has all log files of attempts that are over
struct LauncherHeard {};   // any frame at all
struct LauncherClosed {};  // the connection ended
// What became of an action.
struct AttemptOpened {
  std::int32_t store_port = 0;
  bool template_loads = false;      // TemplateSettled follows
  bool gpus_may_be_full = false;    // with memory of killed workers: LookAtGpus is to find out
  std::string other_checkpoints{};  // as AttemptPrepared has it; what follows too
  std::int32_t neighbour_port = 0;
  std::vector<Rank> held_ranks{};
};
struct AttemptNotOpened {
  wire::AttemptRefused refusal;
};
struct WorkerStarted {
  LocalRank local_rank;
  std::int32_t pid = 0;
  bool forked = false;             // from the template
  std::string executed_because{};  // why it was not forked, if it might have been
};
struct WorkerNotStarted {
  LocalRank local_rank;
  wire::AttemptRefused refusal;
};
struct WorkerEnded {  // reaped, its output read
  LocalRank local_rank;
  wire::WorkerExited exited;  // ranks and after_stop are filled in here
};
struct LeftoversGone {};       // none lives, but for those that were named
struct LeftoversNamed {        // answers NameLeftovers
  std::vector<Leftover> left;  // empty: nobody can tell
};
struct StoreAnswered {     // answers ReachStore
  std::string why_not;     // empty: it did
  bool no_answer = false;  // its host did not answer either
};
struct GpusLookedAt {  // answers LookAtGpus, unless the driver has not answered yet
  std::string held;    // memory of killed workers that is not free yet; or empty
};
struct MemoryWritten {                  // answers WriteMemoryOut
  std::string told;                     // for the user; empty: there was nothing
  std::optional<std::uint64_t> step{};  // of the checkpoint that was made
};
struct TemplateSettled {};  // the one that was loading can be forked, or is gone
struct TimePassed {};       // next_deadline() has come
using Event =
    std::variant<Welcomed, AttemptRequested, StandByRequested, StartRequested, StopRequested, SignalRequested,
                 LeaveRequested, LogsSent, LauncherHeard, LauncherClosed, AttemptOpened, AttemptNotOpened,
                 WorkerStarted, WorkerNotStarted, WorkerEnded, LeftoversGone, LeftoversNamed, StoreAnswered,
                 GpusLookedAt, MemoryWritten, TemplateSettled, TimePassed>;

struct OpenAttempt {  // check the program and the directories, open logs and store; answered by AttemptOpened
                      // or AttemptNotOpened
  Attempt attempt;
  wire::PrepareAttempt plan;
};
struct LoadTemplate {  // for an attempt that may come; TemplateSettled follows
  wire::PrepareAttempt likely;
};
struct ReachStore {  // ask the attempt's store for an answer; answered by StoreAnswered, unless the attempt
                     // is closed before
  wire::StartWorkers start;
};
struct StartWorker {  // answered by WorkerStarted or WorkerNotStarted
  LocalRank local_rank;
  wire::StartWorkers start;
};
struct SignalWorker {  // its whole process group
  LocalRank local_rank;
  std::int32_t pid = 0;
  std::int32_t signal = 0;
  bool passed_on = false;  // from the user: the worker goes on
};
struct KillLeftovers {};   // every process that the attempt's workers left behind; answered by LeftoversGone,
                           // if and when none is left
struct NameLeftovers {};   // of those that live on, answered by LeftoversNamed; they are not waited for any
                           // more. If none lives on, LeftoversGone answers, once the log files are written
struct FinishLogs {};      // answered by LeftoversGone, once the log files are written
struct LookAtGpus {};      // answered by GpusLookedAt
struct WriteMemoryOut {};  // makes a checkpoint of what workers held in memory; answered by MemoryWritten
struct CloseAttempt {      // logs and store
  bool keep_store =
      false;  // until the next attempt: this node's ranks came to their end, others' may use it still
};
struct GiveUpTemplate {  // it takes too long; answered by nothing
  std::string reason;
};
struct Send {
  Attempt attempt;  // that it is about: another may have been opened since
  wire::ToLauncher message;
};
struct Quit {
  int exit_code = 0;
  std::string reason{};
  bool leaves_processes = false;  // of the job, perhaps: the guardian is to kill them
};
using Action = std::variant<OpenAttempt, LoadTemplate, ReachStore, StartWorker, SignalWorker, KillLeftovers,
                            NameLeftovers, FinishLogs, LookAtGpus, WriteMemoryOut, CloseAttempt,
                            GiveUpTemplate, Send, Quit>;
using Actions = std::vector<Action>;

class Node {
 public:
  // `now`: when the agent started. A launcher that does not say Welcome within kWelcomeLimit is gone.
  explicit Node(TimePoint now) : heard_(now) {}
  Actions on(const Event& event, TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  Attempt attempt() const { return attempt_; }
  // Of the newest attempt.
  Rank rank_of(LocalRank local_rank) const { return plan_.rank_of(local_rank); }
  bool has_rank(Rank rank) const { return RankRange(plan_.first_rank, plan_.local_world_size).has(rank); }

  static constexpr Duration kWelcomeLimit = std::chrono::seconds(30);
  // A killed process ends within milliseconds, unless the kernel holds it (state D) or its cgroup is frozen.
  static constexpr Duration kUnkillableLimit = std::chrono::seconds(3);
  // Between looks at what workers left, beside those when a child has ended.
  static constexpr Duration kClearPause = std::chrono::milliseconds(500);
  // A template has so long from its start until it is ready. A program that calls init() is ready earlier:
  // ranks that are executed do the same, and would take as long.
  static constexpr Duration kTemplateLimit = std::chrono::seconds(60);
  // A start waits so long for GPU memory of killed workers. The driver takes a few seconds for a big one.
  static constexpr Duration kGpuMemoryLimit = std::chrono::seconds(50);
  static constexpr Duration kGpuMemoryPause = std::chrono::milliseconds(20);
  // The store, on another host, has so long for its answer.
  static constexpr Duration kReachLimit = std::chrono::seconds(5);

 private:
  // kOpening and kStarting last only until the performer has answered an action.
  // In kWarming the start waits for the template, for GPU memory, or for the store's answer.
  enum class Phase { kIdle, kOpening, kPrepared, kWarming, kStarting, kRunning, kClearing, kLeft };

  void handle(const Welcomed& event, TimePoint now);
  void handle(const AttemptRequested& event, TimePoint now);
  void handle(const StandByRequested& event, TimePoint now);
  void handle(const StartRequested& event, TimePoint now);
  void handle(const StopRequested& event, TimePoint now);
  void handle(const SignalRequested& event, TimePoint now);
  void handle(const LeaveRequested& event, TimePoint now);
  void handle(const LogsSent& event, TimePoint now);
  void handle(const LauncherHeard& event, TimePoint now);
  void handle(const LauncherClosed& event, TimePoint now);
  void handle(const AttemptOpened& event, TimePoint now);
  void handle(const AttemptNotOpened& event, TimePoint now);
  void handle(const WorkerStarted& event, TimePoint now);
  void handle(const WorkerNotStarted& event, TimePoint now);
  void handle(const WorkerEnded& event, TimePoint now);
  void handle(const LeftoversGone& event, TimePoint now);
  void handle(const LeftoversNamed& event, TimePoint now);
  void handle(const StoreAnswered& event, TimePoint now);
  void handle(const GpusLookedAt& event, TimePoint now);
  void handle(const MemoryWritten& event, TimePoint now);
  void handle(const TemplateSettled& event, TimePoint now);
  void handle(const TimePassed& event, TimePoint now);

  bool workers_live() const { return phase_ == Phase::kStarting || phase_ == Phase::kRunning; }
  // Prepared, and no worker started yet.
  bool can_still_start() const { return phase_ == Phase::kPrepared || phase_ == Phase::kWarming; }
  Duration silence_limit() const { return job_ ? job_->limits.silence_limit : kWelcomeLimit; }
  std::optional<TimePoint> launcher_deadline() const;
  void send(wire::ToLauncher message);
  void open(const AttemptRequested& request);
  void start_if_ready();
  void check_gpus(TimePoint now);
  void start_workers();
  void give_up_template(TimePoint now);
  void stop_workers(std::int32_t signal, Duration grace, TimePoint now);
  void kill_workers(TimePoint now);
  void name_unkillable(TimePoint now);
  void clear_if_all_ended(TimePoint now);
  void clear(TimePoint now);
  void attempt_is_over(bool keep_store = false);
  void leave(std::string reason, int exit_code, TimePoint now);
  void quit_if_left();
  void write_memory_out();
  void quit();

  std::optional<wire::JobSpec> job_;
  Phase phase_ = Phase::kIdle;
  Attempt attempt_;
  wire::PrepareAttempt plan_;
  wire::StartWorkers start_;
  std::vector<Worker> workers_;              // by local rank
  wire::WorkersStarted started_;             // of those so far
  std::optional<TimePoint> kill_at_;         // the grace's end
  std::optional<TimePoint> unkillable_at_;   // a killed worker that lives on then cannot be killed
  std::optional<TimePoint> clear_again_at_;  // while leftovers are killed
  std::optional<TimePoint> give_up_at_;      // while a template loads
  std::optional<TimePoint> reach_until_;     // while the store has not answered
  std::optional<TimePoint> gpus_until_;      // while GPU memory may not be free
  std::optional<TimePoint> look_at_gpus_at_;
  std::string gpus_held_;                    // GpusLookedAt::held, as the user was told
  std::optional<AttemptRequested> waiting_;  // for the end of the attempt before it
  std::optional<Quit> leaving_;
  bool leaves_unseen_ = false;      // nobody could tell what the newest attempt left
  bool logs_first_ = false;         // while leaving: LogsSent is waited for
  bool memory_first_ = false;       // while leaving: MemoryWritten is waited for, if it is to be written
  bool writes_memory_out_ = false;  // WriteMemoryOut was decided
  bool has_failed_ = false;         // of the newest attempt's workers one, or it could not be started
  TimePoint heard_;
  bool closed_ = false;
  Actions actions_;  // of the event at hand
};

}  // namespace muster::agent
