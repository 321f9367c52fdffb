#include "launcher/core/job/job.h"

#include <algorithm>
#include <csignal>
#include <functional>
#include <utility>

#include "common/base/earliest.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

using Presence = Fleet::Presence;

constexpr Duration kCulpritPatience = std::chrono::seconds(1);
constexpr Duration kAnswerPatience = std::chrono::seconds(1);
constexpr Duration kStacksLimit = std::chrono::seconds(2);
// Time for the agent, after the workers' grace, to reap the workers, read their last output, and report.
constexpr Duration kStopMargin = std::chrono::seconds(5);
// The time that the processes of killed agents get to end.
constexpr Duration kLastMargin = std::chrono::seconds(5);

RestartLimits restart_limits(const Plan& plan) {
  return {.max_restarts = plan.job.max_restarts,
          .window = plan.recovery.restart_window,
          .delay = plan.recovery.restart_delay,
          .no_progress_limit = plan.recovery.no_progress_limit,
          .seed = std::hash<std::string>{}(plan.job.job_id)};
}

}  // namespace

Refusal refusal_of(const AttemptDenied& denied) {
  using By = AttemptDenied::By;
  const std::string& why = denied.why.message();
  switch (denied.by) {
    case By::kNewerLaunch:
      return {Refusal::Kind::kFenced, std::nullopt, kExitInternal,
              why + "; this launch does not restart anything"};
    case By::kLivingLaunch:
      return {Refusal::Kind::kFenced, std::nullopt, kExitUsage, why + "; --take-over would stop it"};
    case By::kDisk: break;
  }
  return {Refusal::Kind::kCannotStart, std::nullopt, exit_code_of_path_error(denied.why.code()), why};
}

Job::Job(Plan plan, Fleet& fleet)
    : plan_(std::move(plan)),
      names_(plan_.names()),
      fleet_(fleet),
      recruiter_(plan_, fleet),
      recovery_(restart_limits(plan_)),
      time_limit_(plan_.recovery.time_limit, plan_.recovery.preemption_grace),
      start_wait_(plan_.recovery.start_timeout) {}

std::optional<TimePoint> Job::next_deadline() const {
  if (phase_ == Phase::kDone) return std::nullopt;
  std::optional<TimePoint> next = phase_ == Phase::kLeaving ? std::nullopt : time_limit_.next();
  if (phase_ == Phase::kGathering) take_earlier(next, start_wait_.next());
  if (deadline_) take_earlier(next, deadline_->at);
  take_earlier(next, next_still());
  return next;
}

// ---- Events ----

void Job::handle(const Began&, TimePoint now) {
  time_limit_.begin(now);
  start_wait_.begin(now);
  gather(now);
}

void Job::handle(const LeftoversGone&, TimePoint now) {
  awaits_leftovers_ = leftovers_remain_ = false;
  react(Occurrence::kLeftoversGone, now);
}

void Job::handle(const LeftoversRemain& event, TimePoint now) {
  name_leftovers(event.left, std::nullopt);
  if (phase_ == Phase::kStopping) {
    leftovers_remain_ = true;
  } else {
    leave_leftovers_behind();
  }
  react(Occurrence::kLeftoversGone, now);
}

void Job::handle(const AttemptBegun& event, TimePoint now) {
  if (!answers(event.question)) return;
  newest_begun_ = event.attempt;
  react(Occurrence::kBegun, now, [&] { open_attempt(event, "it takes part in the attempt", now); });
}

void Job::handle(const AttemptDenied& event, TimePoint now) {
  if (!answers(event.question)) return;
  react(Occurrence::kDenied, now, [&] { facts_.refusal = refusal_of(event); });
}

void Job::handle(const CheckpointFound& event, TimePoint now) {
  if (!answers(event.question)) return;
  preemption_.found(event.step);
  advance(now);
}

// A scheduler sends TERM or USR1 when it needs the machine. A user sends INT to end the job. If all workers
// have reported that they can save and leave, each of these signals gives them time to do so.
void Job::handle(const Interrupted& event, TimePoint now) {
  const bool is_notice = event.signal == SIGTERM || event.signal == SIGUSR1 || event.signal == SIGINT;
  if (is_notice && can_save()) return notice({event.signal}, now + plan_.recovery.preemption_grace, now);
  if (event.signal == SIGUSR1 || event.signal == SIGUSR2) return pass_on(event.signal);
  interrupt({event.signal}, now);
}

// A repeated `launch cancel` still waits for the workers. Only a third signal ends the launcher at once.
void Job::handle(const Cancelled& event, TimePoint now) {
  const StopWish wish{.signal = SIGINT, .cancelled = true};
  if (!event.now && can_save()) return notice(wish, now + plan_.recovery.preemption_grace, now);
  if (!event.now && preemption_.given() && phase_ <= Phase::kPreempting) return preemption_.want(wish);
  const std::int32_t wanted = event.now ? 2 : 1;
  for (std::int32_t count = interrupt_count_; count < wanted; ++count) interrupt(wish, now);
}

void Job::handle(const StacksWanted&, TimePoint) {
  if (!living_ranks().empty()) send_to_workers(wire::DumpStacks{}, "the user wants the stacks");
}

void Job::handle(const TimePassed&, TimePoint now) {
  check_time_limit(now);
  check_start(now);
  if (next_still().value_or(TimePoint::max()) <= now) check_still(now);
  if (deadline_ && deadline_->at <= now) check_deadline(now);
}

void Job::check_time_limit(TimePoint now) {
  if (phase_ >= Phase::kLeaving) return;
  switch (time_limit_.take_due(now)) {
    case TimeLimit::Due::kNothing: return;
    case TimeLimit::Due::kNotice: return give_time_notice(now);
    case TimeLimit::Due::kEnd:
      facts_.out_of_time = phase_ < Phase::kStopping;
      return react(Occurrence::kTimeLimit, now);
  }
}

// If the time limit is near and all ranks can save, gives them the notice to save. The notice may be due
// before all ranks can save. So this function is also called whenever a rank has said that it can save.
void Job::give_time_notice(TimePoint now) {
  if (time_limit_.is_near() && can_save()) notice({}, time_limit_.end(), now);
}

void Job::check_start(TimePoint now) {
  if (phase_ != Phase::kGathering || !crew_.empty()) return;
  start_wait_.pass(now);
  if (start_wait_.is_over()) advance(now);
  if (phase_ != Phase::kGathering || !start_wait_.is_hopeless(now)) return;
  react(Occurrence::kTooFew, now, [&] {
    facts_.refusal = Refusal{Refusal::Kind::kTooFewNodes, std::nullopt, kExitNodesMissing, too_few_text(now)};
    start_wait_.end();
  });
}

void Job::check_deadline(TimePoint now) {
  using What = Deadline::What;
  switch (deadline_->what) {
    case What::kBackOff: deadline_.reset(); return gather(now);
    case What::kCulprit: deadline_.reset(); return react(Occurrence::kWorkerFailed, now);
    case What::kAnswers: return stop_workers(now);
    case What::kStacks: return react(Occurrence::kStacksEnded, now);
    case What::kNotice:
      if (preemption_.wish().signal != 0) facts_.interrupted_by = preemption_.wish();
      return react(Occurrence::kNoticeExpired, now);
    case What::kEnd: return deadline_->was_due ? give_up_on_late_nodes(now) : hear_first(now);
    case What::kLastWait: return abandon(now, "processes of the job cannot be killed");
  }
}

bool Job::can_save() const {
  return phase_ == Phase::kRunning && !preemption_.given() && preemption_.all_can(facts_.world_size);
}

void Job::interrupt(const StopWish& wish, TimePoint now) {
  constexpr int kLeaveAtOnce = 3;
  if (phase_ == Phase::kDone) return;
  record("interrupted", name_of(wish));
  // If the attempt is already being stopped, it keeps the cause of that stop.
  if (phase_ < Phase::kStopping) facts_.interrupted_by = wish;
  const bool stops_for_another_reason = phase_ == Phase::kStopping && !facts_.interrupted_by;
  if (++interrupt_count_ >= kLeaveAtOnce) {
    if (stops_for_another_reason) recovery_.forbid(wish);
    return abandon(now, "the user asked three times");
  }
  if (stops_for_another_reason && !recovery_.is_forbidden()) {
    recovery_.forbid(wish);
    // If no worker lives, no worker needs time to end. So this interrupt acts like a second one.
    if (!no_rank_lives()) return tell_wait(wish.signal, now);
  }
  react(Occurrence::kInterrupted, now);
}

// If `wish` has no signal, the notice comes from the time limit.
void Job::notice(const StopWish& wish, TimePoint until, TimePoint now) {
  react(Occurrence::kNoticed, now, [&] {
    preemption_.give(wish, until, chronicle_.steps());
    record("preemption_notice", preemption_.why());
  });
}

void Job::pass_on(int signal) {
  const bool noticed = signal == SIGUSR1 && preemption_.given();
  if (phase_ == Phase::kDone || noticed) return;
  const bool anybody = phase_ < Phase::kStopping && !crew_.with_workers().empty();
  decide(Tell{fmt::format("{} {}", signal_name(signal),
                          anybody ? "is passed on to the workers" : "is ignored: no worker is running")},
         "the user sent it");
  if (anybody) send_to_workers(wire::SignalWorkers{signal}, "the user sent it");
}

// ---- Reactions ----

void Job::follow(Reaction reaction, TimePoint now) {
  switch (reaction) {
    case Reaction::kUndecided:
    case Reaction::kIgnore: break;
    case Reaction::kNote: advance(now); break;
    case Reaction::kAwait: await_culprit(now); break;
    case Reaction::kDump: dump(now); break;
    case Reaction::kPreempt: preempt(now); break;
    case Reaction::kStop: stop_workers(now); break;
    case Reaction::kKill: kill_remaining(now); break;
  }
}

// Enters the next phase if this one has nothing left to wait for.
void Job::advance(TimePoint now) {
  switch (phase_) {
    case Phase::kGathering:
      if (cannot_gather()) return await_answers(now);
      if (deadline_) return;  // in a back-off
      if (Placement placed = recruiter_.place(crew_, is_patient(), now); !placed.members.empty())
        begin_attempt(std::move(placed), now);
      return;
    case Phase::kPreparing:
      if (facts_.refusal) return await_answers(now);
      if (crew_.all_prepared()) start_workers(now);
      return;
    case Phase::kRunning:
    case Phase::kDumping:
    case Phase::kPreempting:
    case Phase::kStopping:
      if (crew_.with_workers().empty() && !awaits_leftovers()) return conclude(now);
      if (phase_ != Phase::kStopping && no_rank_lives()) clear_up(now);
      return;
    case Phase::kLeaving:
      if (fleet_.alive_count() > 0 || awaits_leftovers()) return;
      phase_ = Phase::kDone;
      deadline_.reset();
      return decide(Finish{.nothing_is_left = true}, "nothing of the job is left");
    case Phase::kBeginning:
    case Phase::kDone: return;
  }
}

// A rank has missed another rank, the culprit. The culprit closes its connections before its process ends, so
// other ranks may end earlier. The attempt stops only at the culprit's end, or after kCulpritPatience at the
// latest, because an earlier stop would hide how the culprit ends.
void Job::await_culprit(TimePoint now) {
  if (!deadline_) deadline_ = {now + kCulpritPatience, Deadline::What::kCulprit};
  advance(now);
}

// Waits for the answers of the other nodes. Then one message can name all hosts that lack something.
void Job::await_answers(TimePoint now) {
  const bool starting = phase_ == Phase::kGathering;
  const std::size_t answered = facts_.refusal->by_node.size() + crew_.prepared_count();
  const bool all_answered =
      starting ? fleet_.alive_count() == fleet_.there_count() : answered >= crew_.members().size();
  if (plan_.hosts.empty() || all_answered) return stop_workers(now);
  const bool waits = deadline_ && deadline_->what == Deadline::What::kAnswers;
  if (!waits) deadline_ = {now + kAnswerPatience, Deadline::What::kAnswers};
}

void Job::dump(TimePoint now) {
  phase_ = Phase::kDumping;
  deadline_ = {now + kStacksLimit, Deadline::What::kStacks};
  facts_.hangs = true;
  const Stall stall = facts_.hang.suspects(facts_.groups).front();
  decide(Tell{fmt::format("{} {}: stopping the workers once their stacks are written",
                          names_.of(stall.rank, stall.node), stall.what)},
         "a worker hangs");
  ask_for_stacks("a worker hangs");
}

void Job::preempt(TimePoint now) {
  // If there is a deadline, a rank has failed. The others cannot agree on a step, and are stopped soon.
  if (deadline_) return;
  phase_ = Phase::kPreempting;
  deadline_ = {preemption_.until(), Deadline::What::kNotice};
  const Duration grace = preemption_.until() - now;
  decide(Tell{fmt::format("{}: the workers are asked to save and leave within {:.3g} s{}", preemption_.why(),
                          in_seconds(grace), preemption_.how_to_end_now())},
         "all workers can");
  send_to_workers(wire::Preempt{std::chrono::nanoseconds(grace).count()}, preemption_.why());
}

void Job::stop_workers(TimePoint now) {
  phase_ = Phase::kStopping;
  kill_from_ = now + plan_.job.limits.grace;
  deadline_ = {kill_from_ + kStopMargin, Deadline::What::kEnd};
  if (facts_.hangs && facts_.hang.suspects(facts_.groups).front().stopped)
    send_to_workers(wire::SignalWorkers{SIGCONT}, "a stopped worker must continue to act on the signal");
  // Passes the user's signal on, so that the program can save. After a notice, the program gets SIGTERM.
  const auto by = preemption_.given() ? std::nullopt : facts_.interrupted_by;
  send_to_workers(wire::StopWorkers{by ? by->signal : SIGTERM, to_ns(plan_.job.limits.grace)},
                  "the attempt cannot succeed any more");
  if (facts_.interrupted_by) tell_wait(facts_.interrupted_by->signal, now);
  advance(now);
}

void Job::kill_remaining(TimePoint now) {
  if (phase_ == Phase::kLeaving) return kill_late_nodes(now);
  kill_from_ = now;
  deadline_->at = now + kStopMargin;
  send_to_workers(wire::StopWorkers{SIGKILL, 0}, "the user asked twice");
  if (crew_.living_count() == 0) return;
  decide(Tell{fmt::format("killing {}; Ctrl-C again to leave at once",
                          count_of(crew_.living_count(), "worker"))},
         "the user asked twice");
}

// ---- From gathering agents to starting workers ----

// Agents that the attempt does not need would delay its start. So they are hired after the workers' start.
void Job::gather(TimePoint now) {
  phase_ = Phase::kGathering;
  if (deadline_) return;  // in a back-off: an agent that cannot start would end the back-off
  advance(now);
  if (phase_ == Phase::kGathering) carry(recruiter_.hire_absent(now));
}

// The checkpoint directory numbers the attempts. A job without such a directory counts them itself.
void Job::begin_attempt(Placement placed, TimePoint now) {
  crew_ = Crew(std::move(placed.members));
  neighbours_ = {};
  start_wait_.end();
  phase_ = Phase::kBeginning;
  deadline_.reset();
  auto rendezvous = meet(crew_.members(), whereabouts_, plan_.job.interface, unreachable_);
  if (!rendezvous) {
    facts_ = {};
    facts_.refusal = {Refusal::Kind::kCannotStart, std::nullopt, kExitUsage, rendezvous.error().message()};
    return stop_workers(now);
  }
  store_address_ = std::move(rendezvous->store_address);
  store_peers_ = std::move(rendezvous->peers);
  if (plan_.job.checkpoint_directory.empty())
    return react(Occurrence::kBegun, now,
                 [&] { open_attempt({attempt_.next(), std::nullopt}, placed.reason, now); });
  if (open_question_) return;  // an interrupted beginning has asked already; its answer will do
  const bool take_over = plan_.take_over || newest_begun_ != Attempt();
  decide(BeginAttempt{ask(), newest_begun_, take_over}, std::move(placed.reason));
}

Question Job::ask() {
  open_question_ = question_ = question_.next();
  return question_;
}

bool Job::answers(Question question) {
  if (question != open_question_) return false;
  open_question_.reset();
  return true;
}

void Job::open_attempt(const AttemptBegun& begun, const std::string& reason, TimePoint now) {
  phase_ = Phase::kPreparing;
  attempt_ = begun.attempt;
  store_port_ = 0;
  facts_ = {};
  facts_.world_size = crew_.world_size();
  facts_.chose_python = plan_.chose_python;
  facts_.shrunk = facts_.world_size < recruiter_.world_size();
  preemption_ = {};
  told_stall_ = told_still_ = false;
  const auto node_count = static_cast<std::int32_t>(crew_.members().size());
  AttemptHistory history;
  history.attempt = attempt_;
  history.world_size = facts_.world_size;
  history.node_count = node_count;
  history.offered_step = begun.resume_step ? std::optional(static_cast<std::int64_t>(*begun.resume_step))
                                           : saved_step(chronicle_.history());
  chronicle_.begin(std::move(history));
  record("attempt_begun", offer_text(begun.resume_step.has_value()));
  if (recovery_.repeated())
    decide(Tell{restart_text(begun.resume_step.has_value(), now)}, "the attempt is a restart");
  neighbours_ = find_neighbours();
  const bool shared = (!plan_.hosts.empty() && node_count > 1) || plan_.shares_checkpoints;
  std::map<std::string, std::int32_t> agents_on;
  for (const NodePlan& each : crew_.members()) ++agents_on[machine_of(each.node)];
  std::map<std::string, std::int32_t> positions;
  for (const NodePlan& each : crew_.members()) {
    const std::string machine = machine_of(each.node);
    decide(Send{each.node, attempt_,
                wire::PrepareAttempt{
                    .restart_count = repeat_count(),
                    .node_count = node_count,
                    .world_size = facts_.world_size,
                    .first_rank = each.first_rank,
                    .local_world_size = each.worker_count,
                    .host_store = each.first_rank == Rank(0),
                    .store_address = store_address_,
                    .agents_on_host = agents_on.at(machine),
                    .agent_on_host = positions[machine]++,
                    .peers = each.first_rank == Rank(0) ? store_peers_ : std::vector<std::string>(),
                    .same_checkpoints = shared && !plan_.job.checkpoint_directory.empty(),
                    .neighbour_address = neighbours_.address_of(each.node),
                    .rank_counts = crew_.rank_counts(plan_.job.mpi)}},
           reason);
  }
}

void Job::start_workers(TimePoint now) {
  phase_ = Phase::kRunning;
  facts_.started = now;
  crew_.start_workers();
  auto neighbours = neighbours_.told_to_each([this](NodeId id) { return fleet_.incarnation(id); });
  for (const NodeId id : crew_.with_workers())
    decide(Send{id, attempt_,
                wire::StartWorkers{store_address_, store_port_, chronicle_.resume_step(),
                                   std::move(neighbours[id])}},
           "every node is prepared");
  for (const NodeId id : fleet_.nodes()) stand_by(id);
  carry(recruiter_.hire_absent(now));
}

// ---- The end of an attempt, and the step after it ----

// Call when all ranks have ended. An agent that has not killed the leftovers by the deadline counts as lost.
void Job::clear_up(TimePoint now) {
  phase_ = Phase::kStopping;
  kill_from_ = now;
  deadline_ = {now + kStopMargin, Deadline::What::kEnd};
}

void Job::judge_attempt() {
  facts_.first = repeat_count() == 0;
  facts_.notice_given = preemption_.given();
  facts_.notice = preemption_.wish();
  facts_.committed_on_notice = preemption_.has_committed(chronicle_.steps());
  facts_.told_preempted = preemption_.some_leave();
  if (facts_.world_size == 0) {
    facts_.world_size = recruiter_.world_size();  // no attempt has begun
  } else {
    facts_.steps = chronicle_.steps().by_rank();
    facts_.stepped = chronicle_.stepped();
  }
  if (facts_.refusal && !facts_.refusal->by_node.empty())
    facts_.refusal->message = by_host(facts_.refusal->by_node);
  verdict_ = judge(facts_, names_);
  chronicle_.end(verdict_);
  record("attempt_ended", verdict_.cause, verdict_.node, verdict_.rank);
}

// Call when no process of the attempt is left.
void Job::conclude(TimePoint now) {
  if (!plan_.job.checkpoint_directory.empty() && preemption_.is_unclear(chronicle_.steps())) {
    if (!open_question_)
      decide(LookForCheckpoint{ask(), attempt_}, "the ranks left on notice, and reported no commit");
    return;
  }
  if (leftovers_remain_) leave_leftovers_behind();
  judge_attempt();
  const Recovery::Circumstances attempt{
      .ran = attempt_ran(),
      .cannot_start = facts_.refusal && facts_.refusal->kind == Refusal::Kind::kCannotStart,
      .another_network = facts_.refusal && facts_.refusal->kind == Refusal::Kind::kUnreachable,
      .commit_count = chronicle_.steps().commit_count(),
      .notice = preemption_.given() ? std::optional(preemption_.wish()) : std::nullopt,
      .committed_on_notice = facts_.committed_on_notice,
      .time_is_up = time_limit_.is_up()};
  Recovery::Next next = recovery_.after(std::move(verdict_), attempt, now);
  verdict_ = std::move(next.verdict);
  if (next.restart) return restart(*next.restart, now);
  leave(now);
}

// If a node refused the attempt, no program ran. If the attempt was fenced, its programs had run.
bool Job::attempt_ran() const {
  return facts_.started && !(facts_.refusal && facts_.refusal->kind != Refusal::Kind::kFenced);
}

// Returns whether a store address is left that has not been tried.
bool Job::has_another_network() const {
  const auto other = meet(crew_.members(), whereabouts_, plan_.job.interface, unreachable_);
  return other && !unreachable_.contains(other->store_address);
}

void Job::restart(const RestartDecision& decision, TimePoint now) {
  crew_.disband();
  const bool another_network = facts_.refusal && facts_.refusal->kind == Refusal::Kind::kUnreachable;
  if (!another_network) unreachable_.clear();  // a broken network may work again
  facts_ = {};
  preemption_ = {};
  deadline_.reset();
  decide(Record{.event = "restart",
                .text = fmt::format("{}, after {:.3f} s", decision.reason, in_seconds(decision.delay)),
                .attempt = attempt_,
                .wait = decision.delay},
         "for the record");
  if (decision.delay > Duration::zero()) {
    deadline_ = {now + decision.delay, Deadline::What::kBackOff};
    decide(
        Tell{fmt::format("{}; retrying in {:.1f} s", verdict_.cause_and_step(), in_seconds(decision.delay))},
        "nothing was gained since the last restart");
  }
  gather(now);
}

void Job::leave(TimePoint now) {
  tell_loss();
  phase_ = Phase::kLeaving;
  deadline_ = {now + leave_limit(), Deadline::What::kEnd};
  record("job_ended", verdict_.cause, verdict_.node, verdict_.rank);
  fleet_.release();
  for (const NodeId id : fleet_.nodes()) {
    if (fleet_.presence(id) == Presence::kThere) decide(Send{id, attempt_, wire::Leave{}}, "the job is over");
    if (fleet_.presence(id) == Presence::kComing)
      kill_node(id, "the job is over before the agent joined", now);
  }
  advance(now);
}

// Ends the job at once, and waits for nothing. Guardians clear up all that the agents leave behind.
void Job::abandon(TimePoint now, const std::string& reason) {
  if (phase_ < Phase::kLeaving) {
    judge_attempt();
    verdict_ = recovery_.abandoned(std::move(verdict_));
    tell_loss();
    record("job_ended", verdict_.cause, verdict_.node, verdict_.rank);
  }
  phase_ = Phase::kDone;
  deadline_.reset();
  fleet_.release();
  for (const NodeId id : fleet_.nodes()) {
    if (fleet_.alive(id)) carry(fleet_.drop(id, now, reason, now));
  }
  decide(Finish{}, reason);
}

// Kills late agents. Their guardians clear up. But if a worker has survived SIGKILL, no guardian can kill
// this worker either. Then the job ends at once.
void Job::give_up_on_late_nodes(TimePoint now) {
  deadline_ = {now + kLastMargin, Deadline::What::kLastWait};
  if (!facts_.unkillable.empty()) return abandon(now, "a worker cannot be killed");
  kill_late_nodes(now);
}

void Job::kill_late_nodes(TimePoint now) {
  for (const NodeId id : fleet_.nodes()) {
    if (fleet_.alive(id) && (phase_ == Phase::kLeaving || crew_.with_workers().contains(id)))
      kill_node(id, "its agent did not finish in time", now);
  }
}

void Job::kill_node(NodeId id, const std::string& how, TimePoint now) {
  carry(fleet_.drop(id, now, how, now));
  lose({id, now, how}, now);
}

void Job::lose(AgentLoss loss, TimePoint now) {
  crew_.lose(loss.node);
  awaits_leftovers_ = true;
  leftovers_remain_ = false;
  if (phase_ >= Phase::kLeaving) return react(Occurrence::kLost, now);  // agents are expected to end
  record("node_lost", loss.how, loss.node);
  const bool gathers = phase_ == Phase::kGathering;
  if (gathers && cannot_gather()) return await_answers(now);
  // During a back-off no agent is hired again.
  const bool needed = gathers ? !deadline_ && recruiter_.too_few() : crew_.find(loss.node) != nullptr;
  if (needed) facts_.losses.push_back(std::move(loss));
  react(needed ? Occurrence::kLost : Occurrence::kSpareLost, now);
}

// ---- Messages ----

void Job::send_to_workers(const wire::ToAgent& message, const std::string& reason) {
  for (const NodeId node : crew_.with_workers()) decide(Send{node, attempt_, message}, reason);
}

void Job::ask_for_stacks(const std::string& reason) {
  told_stall_ = true;
  send_to_workers(wire::DumpStacks{}, reason);
}

void Job::carry(FleetDecisions decisions) {
  for (FleetDecision& each : decisions) decisions_.push_back(as_decision(std::move(each)));
}

}  // namespace muster::launcher
