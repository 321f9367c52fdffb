// Decides what the agent does at each event, for all ranks of its node and through all attempts of a job.
//
// - It answers every order of the launcher.
// - It stops workers: first with a signal, and with KILL when the grace is over.
// - It reports that the node is empty, but only when the last process of the attempt has ended.
// - It stops by itself if nothing is heard from the launcher for too long.
// Node makes decisions only. Each event comes with the time, and Agent (agent.h) carries out the returned
// actions in order. One thread.
//
// If the program was found but cannot be executed (wrong format), the attempt is refused: Node kills the
// ranks that have already started, and sends WorkersGone. This is not reported as the exit of a worker,
// because a restart would not help. If a worker survives SIGKILL, Node reports it to the launcher, and the
// node is not empty until that worker ends. If any other process survives SIGKILL, Node reports it, but does
// not wait for it, because it can be a process of another user.
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

// Orders of the launcher.
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
struct SignalRequested {  // for the workers, which keep running
  Attempt attempt;
  std::int32_t signal = 0;
};
struct LeaveRequested {
  std::string reason;
  bool launcher_waits = false;  // leave only after LogsSent, and once the workers' memory is on disk
};
struct LogsSent {};        // the launcher has all log files of past attempts
struct LauncherHeard {};   // any frame was received
struct LauncherClosed {};  // the connection has ended
// Results of actions.
struct AttemptOpened {
  std::int32_t store_port = 0;
  bool template_loads = false;      // TemplateSettled follows
  bool gpus_may_be_full = false;    // with memory of killed workers: use LookAtGpus
  std::string other_checkpoints{};  // this and the next two as in AttemptPrepared
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
  std::string executed_because{};  // why it was executed, if it might have been forked
};
struct WorkerNotStarted {
  LocalRank local_rank;
  wire::AttemptRefused refusal;
};
struct WorkerEnded {  // reaped, and all of its output is read
  LocalRank local_rank;
  wire::WorkerExited exited;  // Node fills in ranks and after_stop
};
struct LeftoversGone {};       // all leftovers have ended, except those that LeftoversNamed named
struct LeftoversNamed {        // answers NameLeftovers
  std::vector<Leftover> left;  // empty: the performer could not find out
};
struct StoreAnswered {     // answers ReachStore
  std::string why_not;     // empty: it answered
  bool no_answer = false;  // its host did not answer either
};
struct GpusLookedAt {  // answers LookAtGpus, unless the driver has not answered yet
  std::string held;    // a text about memory of killed workers that is not yet free; or empty
};
struct MemoryWritten {                  // answers WriteMemoryOut
  std::string told;                     // a remark for the user; empty: there was nothing to write
  std::optional<std::uint64_t> step{};  // of the checkpoint that was written
};
struct TemplateSettled {};  // the template can now fork, or is gone
struct TimePassed {         // next_deadline() has come
  Duration late{};          // how long ago
};
using Event =
    std::variant<Welcomed, AttemptRequested, StandByRequested, StartRequested, StopRequested, SignalRequested,
                 LeaveRequested, LogsSent, LauncherHeard, LauncherClosed, AttemptOpened, AttemptNotOpened,
                 WorkerStarted, WorkerNotStarted, WorkerEnded, LeftoversGone, LeftoversNamed, StoreAnswered,
                 GpusLookedAt, MemoryWritten, TemplateSettled, TimePassed>;

struct OpenAttempt {  // check program and directories, open logs and store; AttemptOpened or AttemptNotOpened
  Attempt attempt;
  wire::PrepareAttempt plan;
};
struct LoadTemplate {  // for a possible attempt; TemplateSettled follows
  wire::PrepareAttempt likely;
};
struct ReachStore {  // wait for the attempt's store to answer; StoreAnswered, unless the attempt ends before
  wire::StartWorkers start;
};
struct StartWorker {  // answered by WorkerStarted or WorkerNotStarted
  LocalRank local_rank;
  wire::StartWorkers start;
};
struct SignalWorker {  // sends a signal to the worker's whole process group
  LocalRank local_rank;
  std::int32_t pid = 0;
  std::int32_t signal = 0;
  bool passed_on = false;  // a signal from the user, after which the worker keeps running
};
// The agent must kill every process that the attempt's workers left behind. It answers with LeftoversGone
// when all of them are gone.
struct KillLeftovers {};
// The agent must stop waiting for the leftovers that are still alive, and answer with LeftoversNamed, which
// names them. If no leftover is alive, the agent instead answers with LeftoversGone, once the log files are
// written.
struct NameLeftovers {};
struct FinishLogs {};       // LeftoversGone answers, once the log files are written
struct LookAtGpus {};       // answered by GpusLookedAt
struct WriteMemoryOut {};   // make a checkpoint of what workers held in memory; MemoryWritten answers
struct CloseAttempt {       // close logs and store
  bool keep_store = false;  // until the next attempt, because other nodes' ranks may still use it
};
struct GiveUpTemplate {  // it loads for too long; no answer follows
  std::string reason;
};
struct Send {
  Attempt attempt;  // the attempt of the message: another may be open by now
  wire::ToLauncher message;
};
struct Quit {
  int exit_code = 0;
  std::string reason{};
  bool leaves_processes = false;  // processes of the job may be left: the guardian must kill them
};
using Action = std::variant<OpenAttempt, LoadTemplate, ReachStore, StartWorker, SignalWorker, KillLeftovers,
                            NameLeftovers, FinishLogs, LookAtGpus, WriteMemoryOut, CloseAttempt,
                            GiveUpTemplate, Send, Quit>;
using Actions = std::vector<Action>;

class Node {
 public:
  // `now` is the time at which the agent started. The launcher counts as lost if it has not sent a Welcome
  // within kWelcomeLimit.
  explicit Node(TimePoint now) : heard_(now) {}
  Actions on(const Event& event, TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  Attempt attempt() const { return attempt_; }
  // For the newest attempt.
  bool stop_requested(LocalRank local_rank) const {
    return workers_.at(static_cast<std::size_t>(local_rank.value())).stop_requested();
  }
  Rank rank_of(LocalRank local_rank) const { return plan_.rank_of(local_rank); }
  LocalRank local_rank_of(Rank rank) const { return LocalRank(rank.value() - plan_.first_rank.value()); }
  bool has_rank(Rank rank) const { return RankRange(plan_.first_rank, plan_.local_world_size).has(rank); }

  static constexpr Duration kWelcomeLimit = std::chrono::seconds(30);
  // If TimePassed comes too late, and the delay is longer than this, the agent itself was stopped. In that
  // case the launcher's silence during this time does not count.
  static constexpr Duration kOverslept = std::chrono::seconds(1);
  // Usually a killed process ends within milliseconds. It takes longer if the kernel holds it (state D) or if
  // its cgroup is frozen. A process that still exists after this time counts as one that cannot be killed.
  static constexpr Duration kUnkillableLimit = std::chrono::seconds(3);
  // Node searches for leftovers again after this pause, and also whenever a child has ended.
  static constexpr Duration kClearPause = std::chrono::milliseconds(500);
  // If a template is not ready within this time from its start, it is given up. Usually the wait costs no
  // time, because executed ranks would have to do the same work.
  static constexpr Duration kTemplateLimit = std::chrono::seconds(60);
  // A start waits until the GPU memory of killed workers is free, but at most for this time. If it is a lot
  // of memory, the driver takes a few seconds to free it.
  static constexpr Duration kGpuMemoryLimit = std::chrono::seconds(50);
  static constexpr Duration kGpuMemoryPause = std::chrono::milliseconds(20);
  // The limit for an answer of a store on another host.
  static constexpr Duration kReachLimit = std::chrono::seconds(5);
  // If a stop begins with another signal than TERM, the worker may ignore that signal. So it also gets TERM,
  // when a fifth of the grace is left. TERM comes so late because it would kill a Python program that saves
  // after Ctrl-C.
  static constexpr int kTermPart = 5;

 private:
  // kOpening and kStarting last only until Agent has answered an action. In kWarming, the start waits for the
  // template, for GPU memory, or for the answer of the store.
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
  // Returns whether the attempt is prepared and none of its workers has been started.
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
  void terminate_workers();
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
  wire::WorkersStarted started_;             // for the workers started so far
  std::optional<TimePoint> terminate_at_;    // when workers that another signal has not ended get TERM
  std::optional<TimePoint> kill_at_;         // the end of the grace
  std::optional<TimePoint> unkillable_at_;   // killed workers alive at this time are unkillable
  std::optional<TimePoint> clear_again_at_;  // while killing leftovers
  std::optional<TimePoint> give_up_at_;      // while a template loads
  std::optional<TimePoint> reach_until_;     // while waiting for the store's answer
  std::optional<TimePoint> gpus_until_;      // while GPU memory may not be free
  std::optional<TimePoint> look_at_gpus_at_;
  std::string gpus_held_;                    // GpusLookedAt::held, as last told to the user
  std::optional<AttemptRequested> waiting_;  // until the attempt before it has ended
  std::optional<Quit> leaving_;
  bool leaves_unseen_ = false;      // the performer could not find out what the newest attempt left behind
  bool logs_first_ = false;         // while leaving: wait for LogsSent
  bool memory_first_ = false;       // while leaving: wait for MemoryWritten, if there is memory to write
  bool writes_memory_out_ = false;  // WriteMemoryOut was sent
  bool has_failed_ = false;         // the newest attempt could not start, or one of its workers failed
  TimePoint heard_;
  bool closed_ = false;
  Actions actions_;  // for the current event
};

}  // namespace muster::agent
