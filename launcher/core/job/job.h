// One job. It has the current attempt and phase, and decides what happens next.
//
// It only decides. Callers pass events with the time, and get actions, each with its reason. The fleet
// (fleet.h) knows the agents. The job asks it which agents are there, and lets it hire and drop agents. Parts
// of the job decide on their own: which nodes take part (placement.h), what caused a failure (verdict.h),
// what follows (recovery.h), which rank hangs (hang.h), whether ranks can leave on notice (preemption.h). The
// chronicle knows the training's progress (chronicle.h). For one thread; performs nothing and reads no clock.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/core/fleet/fleet.h"
#include "launcher/core/job/chronicle.h"
#include "launcher/core/job/crew.h"
#include "launcher/core/job/job_events.h"
#include "launcher/core/job/neighbours.h"
#include "launcher/core/job/preemption.h"
#include "launcher/core/job/reactions.h"
#include "launcher/core/job/recovery.h"
#include "launcher/core/job/recruiter.h"
#include "launcher/core/job/rendezvous.h"
#include "launcher/core/job/start_wait.h"
#include "launcher/core/job/time_limit.h"
#include "launcher/core/settings/plan.h"

namespace muster::launcher {

// Returns the refusal that follows if a new attempt is denied. It says whether a retry may help. If not, it
// has the exit code.
Refusal refusal_of(const AttemptDenied& denied);

class Job {
 public:
  // The job may use all nodes of the plan. `fleet` must outlive the job.
  Job(Plan plan, Fleet& fleet);
  // Decides about one event. Events are those of job_events.h, and news of the fleet.
  template <class What>
  Decisions on(const What& event, TimePoint now) {
    handle(event, now);
    return std::exchange(decisions_, {});
  }
  std::optional<TimePoint> next_deadline() const;

  Phase phase() const { return phase_; }
  Attempt attempt() const { return attempt_; }
  std::int32_t restart_count() const { return recovery_.restart_count(); }  // without those for added nodes
  std::int32_t repeat_count() const { return recovery_.repeat_count(); }
  // Returns whether the job is in a back-off, that is, a pause before a restart. It does not matter then if
  // nodes are missing.
  bool backs_off() const { return deadline_ && deadline_->what == Deadline::What::kBackOff; }
  const Crew& crew() const { return crew_; }
  const NodeNames& names() const { return names_; }
  // The nodes that take part in the attempt, with their ranks.
  const std::vector<NodePlan>& members() const { return crew_.members(); }
  const Steps& steps() const { return chronicle_.steps(); }
  const std::vector<AttemptHistory>& history() const { return chronicle_.history(); }
  const Verdict& verdict() const { return verdict_; }  // valid once leaving or done
  // Returns the nodes that would be added now for these hosts, each with its slots. If they cannot be added,
  // the error says why.
  Expected<std::vector<NodesAdded::Node>> addable(const std::vector<Host>& hosts) const;
  std::vector<Rank> living_ranks() const;  // the ranks that StacksWanted is sent to
  std::string waiting_for(
      TimePoint now) const;  // for a user who waits for the start; "" if nothing is awaited

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(recruiter_, recovery_, time_limit_, start_wait_, chronicle_, phase_, deadline_, question_,
            open_question_, attempt_, newest_begun_, crew_, facts_, preemption_, whereabouts_, unreachable_,
            store_address_, store_peers_, store_port_, neighbours_, told_stall_, told_still_,
            awaits_leftovers_, leftovers_remain_, kill_from_, interrupt_count_, grows_now_, told_executed_,
            logs_elsewhere_, verdict_, names_);
  }
  // Returns whether the fields that were read are consistent with each other and with the fleet. The code is
  // in job_state.cc.
  bool restored() const;

 private:
  // Due when the current phase has lasted too long.
  struct Deadline {
    enum class What {
      kBackOff,   // the back-off is over: gather agents again
      kCulprit,   // no other culprit appeared: blame the rank that missed a peer
      kAnswers,   // a node cannot start workers: stop waiting for the answers of others
      kStacks,    // stop waiting for missing stacks
      kNotice,    // the workers had time to save and leave: stop them
      kEnd,       // kill agents that have not finished
      kLastWait,  // leave behind processes that are still alive
    };
    TimePoint at;
    What what;
    bool was_due = false;  // for kEnd: see hear_first()
  };

  bool has_its_nodes() const;
  bool has_its_deadline() const;

  // Events of the fleet, the lineage, the user and the clock (job.cc).
  void handle(const Began& event, TimePoint now);
  void handle(const LeftoversGone& event, TimePoint now);
  void handle(const LeftoversRemain& event, TimePoint now);
  void handle(const AttemptBegun& event, TimePoint now);
  void handle(const AttemptDenied& event, TimePoint now);
  void handle(const CheckpointFound& event, TimePoint now);
  void handle(const PaceChanged& change, TimePoint now);
  void handle(const Interrupted& event, TimePoint now);
  void handle(const Cancelled& event, TimePoint now);
  void handle(const NodesAdded& event, TimePoint now);
  Status check_addable(const std::vector<NodesAdded::Node>& nodes) const;
  // Call after a commit. A user can add nodes and ask that they take part soon (NodesAdded::now), not only
  // after the next restart. If such nodes are there, this function ends the attempt, so that the next one can
  // use them.
  void grow_if_wanted(std::int64_t committed_step, TimePoint now);
  void handle(const StacksWanted& event, TimePoint now);
  void handle(const TimePassed& event, TimePoint now);
  void check_time_limit(TimePoint now);
  void give_time_notice(TimePoint now);
  void check_start(TimePoint now);
  void check_deadline(TimePoint now);
  void interrupt(const StopWish& wish, TimePoint now);
  void notice(const StopWish& wish, TimePoint until, TimePoint now);
  void pass_on(int signal);
  bool can_save() const;

  // Messages of agents, and agents that join or are lost (job_messages.cc).
  void handle(const NodeJoined& event, TimePoint now);
  void handle(const NodeLost& event, TimePoint now);
  void handle(const AgentSaid& event, TimePoint now);
  void hear(NodeId id, const wire::AttemptPrepared& prepared, TimePoint now);
  void hear(NodeId id, const wire::AttemptRefused& refused, TimePoint now);
  void hear_unreachable(NodeId id, const wire::AttemptRefused& refused, TimePoint now);
  void refuse(NodeId id, const wire::AttemptRefused& refused, TimePoint now);
  bool seems_cut_off(NodeId host) const;  // whether no other member seems to reach `host`, rank 0's node
  void hear(NodeId id, const wire::WorkersStarted& started, TimePoint now);
  void hear(NodeId id, const wire::WorkerExited& exited, TimePoint now);
  void hear(NodeId id, const wire::WorkersGone& gone, TimePoint now);
  void hear(NodeId id, const wire::WorkerReported& reported, TimePoint now);
  void hear(NodeId id, const wire::WorkerStalled& stalled, TimePoint now);
  void hear_still(StillRank rank, TimePoint now);
  // Checks whether no living rank moves, and no living rank reports steps. The first time, the job tells the
  // user. If nothing has moved at the hang limit, the job stops the ranks, because they hang.
  void check_still(TimePoint now);
  std::optional<TimePoint> next_still() const;
  bool all_stand_still() const;
  bool all_stand_at_their_limit() const;
  void hear_moved(Rank rank, TimePoint now);
  void stall_is_over(TimePoint now);
  void hear(NodeId id, const wire::WorkerStacks& stacks, TimePoint now);
  void hear(NodeId id, const wire::WorkerUnkillable& unkillable, TimePoint now);
  void hear(NodeId id, const wire::LeftoversUnkillable& leftovers, TimePoint now);
  void hear(NodeId id, const wire::AgentRemark& remark, TimePoint now);
  void hear(NodeId id, const wire::LogsElsewhere& logs, TimePoint now);
  void hear(NodeId id, const wire::LogPiece& piece, TimePoint now);
  void hear(NodeId id, const wire::Pong& pong, TimePoint now);
  template <class Other>
  void hear(NodeId, const Other&, TimePoint) {}  // such as output, which decides nothing
  void name_leftovers(const std::vector<Leftover>& left, std::optional<NodeId> node);
  void name_leftover(const std::string& what, std::optional<NodeId> node);

  // Does what the table (reactions.h) says about this occurrence in this phase. Unless the table says to
  // ignore the occurrence, this also calls `note`, which records it.
  template <class Note>
  void react(Occurrence occurrence, TimePoint now, Note note) {
    const Reaction reaction =
        kReactions[static_cast<std::size_t>(occurrence)][static_cast<std::size_t>(phase_)];
    if (reaction == Reaction::kIgnore) return;
    note();
    follow(reaction, now);
  }
  void react(Occurrence occurrence, TimePoint now) {
    react(occurrence, now, [] {});
  }
  void follow(Reaction reaction, TimePoint now);
  void advance(TimePoint now);
  void await_culprit(TimePoint now);
  void await_answers(TimePoint now);
  void dump(TimePoint now);
  void preempt(TimePoint now);
  void stop_workers(TimePoint now);
  void kill_remaining(TimePoint now);

  // The functions from here on take an attempt from the gathering of agents to the start of the workers.
  void gather(TimePoint now);
  void begin_attempt(Placement placed, TimePoint now);
  Question ask();
  bool answers(Question question);
  void open_attempt(const AttemptBegun& begun, const std::string& reason, TimePoint now);
  Neighbours find_neighbours() const;
  void start_workers(TimePoint now);
  std::string machine_of(NodeId id) const;
  void stand_by(NodeId id);

  // The end of an attempt, and the next step.
  void clear_up(TimePoint now);
  void judge_attempt();
  void leave_leftovers_behind();
  void conclude(TimePoint now);
  void restart(const RestartDecision& decision, TimePoint now);
  void leave(TimePoint now);
  Duration leave_limit() const;
  void abandon(TimePoint now, const std::string& reason);
  // If the launcher itself was stopped for a while, agents only seem to be late. This gives the launcher time
  // to read the messages that are waiting. After that, it kills agents that are really late.
  void hear_first(TimePoint now) {
    deadline_ = {.at = now + std::chrono::milliseconds(200), .what = Deadline::What::kEnd, .was_due = true};
  }
  void give_up_on_late_nodes(TimePoint now);
  void kill_late_nodes(TimePoint now);
  void kill_node(NodeId id, const std::string& how, TimePoint now);
  void lose(AgentLoss loss, TimePoint now);
  bool no_rank_lives() const { return crew_.living_count() == 0; }
  // Returns whether the job waits for leftovers. If leftovers have survived a kill, it waits for them only
  // until all ranks have ended.
  bool awaits_leftovers() const { return awaits_leftovers_ && !(leftovers_remain_ && crew_.all_ended()); }
  bool attempt_ran() const;
  // Returns whether a node has refused to start, and too few nodes are left.
  bool cannot_gather() const { return facts_.refusal && recruiter_.too_few(); }
  bool has_another_network() const;

  // Words for the user (job_words.cc).
  void tell_wait(int signal, TimePoint now);
  void tell_loss();
  std::string still_text(Duration still) const;
  std::string list_of(const std::vector<NodeId>& nodes) const;
  std::string offer_text(bool on_disk) const;
  std::string restart_text(bool on_disk, TimePoint now) const;
  std::string too_few_text(TimePoint now) const;
  std::string advice_for(const wire::AttemptRefused& refused) const;
  std::string by_host(const std::map<NodeId, std::string>& messages) const;
  bool is_patient() const { return crew_.empty() && !start_wait_.is_over(); }

  void send_to_workers(const wire::ToAgent& message, const std::string& reason);
  void ask_for_stacks(const std::string& reason);
  void carry(FleetDecisions decisions);
  void decide(decltype(Decision::action) action, std::string reason) {
    decisions_.push_back({std::move(action), std::move(reason)});
  }
  void record(std::string event, std::string text, std::optional<NodeId> node = {},
              std::optional<Rank> rank = {}) {
    decide(Record{.event = std::move(event),
                  .rank = rank,
                  .node = node,
                  .host = node ? names_.host_of(*node) : "",
                  .text = std::move(text),
                  .attempt = attempt_},
           "for the record");
  }

  Plan plan_;
  NodeNames names_;  // of the plan's nodes and of added nodes
  Fleet& fleet_;
  Recruiter recruiter_;
  Recovery recovery_;
  TimeLimit time_limit_;
  StartWait start_wait_;
  Chronicle chronicle_;
  Phase phase_ = Phase::kGathering;
  std::optional<Deadline> deadline_;
  Question question_;                      // the newest question to the lineage
  std::optional<Question> open_question_;  // question_, until the answer arrives

  std::map<NodeId, Whereabouts> whereabouts_;  // of the newest agent of each node
  std::set<std::string> unreachable_;  // store addresses that failed since the last failure of another kind

  // The current attempt.
  Attempt attempt_;
  Attempt newest_begun_;  // in the lineage; newer than attempt_ if its answer came too late
  Crew crew_;
  AttemptFacts facts_;
  Preemption preemption_;
  std::string store_address_;
  std::vector<std::string> store_peers_;  // addresses that may connect to the store; empty on loopback
  std::int32_t store_port_ = 0;           // reported by the store's agent
  Neighbours neighbours_;                 // with --memory-tier
  bool told_stall_ = false;               // told the user that a worker may hang, and requested stacks
  bool told_still_ = false;               // told the user that no rank moves
  bool awaits_leftovers_ = false;         // until lost nodes have no processes left
  bool leftovers_remain_ = false;         // awaited leftovers were killed, but are still alive
  TimePoint kill_from_;                   // while stopping: the end of the grace
  std::int32_t interrupt_count_ = 0;      // in the whole job

  bool grows_now_ = false;       // NodesAdded::now, until an attempt has ended because of it
  bool told_executed_ = false;   // told the user why ranks were not forked
  bool logs_elsewhere_ = false;  // a node sends its logs as messages
  Verdict verdict_;
  Decisions decisions_;  // of the current event
};

}  // namespace muster::launcher
