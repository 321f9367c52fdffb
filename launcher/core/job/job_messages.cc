// The part of Job that handles messages of agents.
#include <algorithm>
#include <utility>

#include "common/wire/codec.h"
#include "launcher/core/job/job.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

// An agent may still be writing the log files of its ranks. This is how long the job waits for that.
constexpr Duration kWriteMargin = std::chrono::seconds(5);
// Agents answer every second. If an agent does not answer for this long, it counts as silent.
constexpr Duration kSilent = std::chrono::milliseconds(2500);
// Some agents are still sending logs. This is how long the job waits for the next piece.
constexpr Duration kLogsLimit = std::chrono::seconds(10);

}  // namespace

void Job::handle(const NodeJoined& event, TimePoint now) {
  whereabouts_[event.node] = {event.host, event.addresses, event.machine};
  decide(Send{event.node, attempt_, wire::Welcome{event.node, plan_.job}}, "the agent greeted");
  record("agent_joined", "", event.node);
  if (crew_.empty()) start_wait_.arrived(now);
  stand_by(event.node);
  react(Occurrence::kJoined, now);
}

// Returns the same name for all nodes of one machine, even if their hosts have different names.
std::string Job::machine_of(NodeId id) const {
  if (plan_.hosts.empty()) return "";
  const auto found = whereabouts_.find(id);
  const bool told = found != whereabouts_.end() && !found->second.machine.empty();
  return told ? found->second.machine : fmt::format("node{}", id);
}

Neighbours Job::find_neighbours() const {
  if (plan_.job.limits.memory_tier_bytes == 0) return {};
  std::vector<Neighbours::Member> members;
  for (const NodePlan& each : crew_.members())
    members.push_back({each, whereabouts_.at(each.node), machine_of(each.node)});
  return {members, plan_.job.interface};
}

// Lets a node load the program now, so that its workers start faster later. The node is a spare, or joined
// too late. The message StandBy says how many agents the node's machine will probably have in the next
// attempt, and which of these agents is the node's own. Both numbers can decide which GPUs the workers use.
// The node's own agent counts as the last one. Without hosts, the node will replace a member on the same
// machine, so the number of agents stays the same. With hosts, the node will replace a member on another
// machine, so the node's machine gets one more agent.
void Job::stand_by(NodeId id) {
  const bool workers_start = phase_ == Phase::kRunning || phase_ == Phase::kDumping;
  if (plan_.job.warm == wire::Warm::kOff || !workers_start || crew_.find(id) != nullptr ||
      fleet_.presence(id) != Fleet::Presence::kThere)
    return;
  const auto there = std::ranges::count(crew_.members(), machine_of(id),
                                        [this](const NodePlan& each) { return machine_of(each.node); });
  const auto agents = static_cast<std::int32_t>(there) + (plan_.hosts.empty() ? 0 : 1);
  decide(Send{id, attempt_, wire::StandBy{recruiter_.likely_workers(id), agents, agents - 1}},
         "it may be needed next");
}

// If an agent refuses to start before the first attempt, the node's next agent would refuse, too. So the job
// keeps the refusal, and ends because of it if too few nodes are left. If an agent refuses later, something
// has happened to the node. So the node only counts as lost.
void Job::handle(const NodeLost& event, TimePoint now) {
  using Kind = Refusal::Kind;
  const bool starts = phase_ == Phase::kGathering || phase_ == Phase::kStopping;
  if (event.end == AgentEnd::kRefused && starts && chronicle_.empty()) {
    const bool by_shell = !plan_.hosts.empty() && !plan_.remote.in_containers();
    if (!facts_.refusal)
      facts_.refusal = {by_shell ? Kind::kTooFewNodes : Kind::kCannotStart, event.node,
                        by_shell ? kExitNodesMissing : kExitInternal, event.how};
    if (by_shell && facts_.refusal->node) facts_.refusal->by_node[event.node] = event.how;
  }
  lose({event.node, event.at, event.how, event.had_joined, event.end == AgentEnd::kOutOfMemory}, now);
}

// Drops messages that belong to an attempt other than the current one. Drops Pongs of other attempts, too,
// because a Pong says how much output of its attempt is waiting.
void Job::handle(const AgentSaid& event, TimePoint now) {
  const bool of_attempt =
      wire::belongs_to_attempt(event.message) || std::holds_alternative<wire::Pong>(event.message);
  if (of_attempt && event.attempt != attempt_) return;
  std::visit([&](const auto& message) { hear(event.agent.node, message, now); }, event.message);
}

void Job::hear(NodeId id, const wire::AttemptPrepared& prepared, TimePoint now) {
  if (!prepared.other_checkpoints.empty()) {
    const std::string text = fmt::format(
        "--checkpoint-dir: {} {}: "
        "give a directory that this machine and all hosts share (--sync copies only once, "
        "which is not enough){}",
        plan_.job.checkpoint_directory, prepared.other_checkpoints,
        plan_.shares_checkpoints ? "" : ", or use one host");
    return refuse(id, {.exit_code = kExitUsage, .message = text}, now);
  }
  react(Occurrence::kPrepared, now, [&] {
    crew_.prepared(id);
    neighbours_.prepared(id, prepared);
    if (id == crew_.members().front().node) store_port_ = prepared.store_port;
  });
}

// If a node refuses a restart, something is wrong with it, because it was able to start workers before.
// Another node may work.
void Job::hear(NodeId id, const wire::AttemptRefused& refused, TimePoint now) {
  if (refused.unreachable) return hear_unreachable(id, refused, now);
  refuse(id, refused, now);
}

// Notes the address of the store that could not be reached. The nodes may be able to reach each other over
// another network.
void Job::hear_unreachable(NodeId id, const wire::AttemptRefused& refused, TimePoint now) {
  unreachable_.insert(store_address_);
  wire::AttemptRefused told = refused;
  if (!has_another_network()) {
    told.message += "; choose a network that connects all nodes with --interface NAME|CIDR";
    return refuse(id, told, now);
  }
  react(Occurrence::kRefused, now, [&] {
    record("attempt_refused", told.message, id);
    if (facts_.refusal) return;
    decide(Tell{fmt::format("{}: {}; trying another network", names_.of(id), told.message)},
           "the nodes have another network in common");
    facts_.refusal = Refusal{Refusal::Kind::kUnreachable, id, told.exit_code, told.message};
  });
}

// A node that can reach the store starts its workers at once. If a node cannot reach the store, its request
// times out, but much later. So if a request has timed out, and no node except `host` has started workers,
// probably no node can reach the store.
bool Job::seems_cut_off(NodeId host) const {
  return crew_.members().size() > 2 && std::ranges::none_of(crew_.members(), [&](const NodePlan& each) {
           return each.node != host && crew_.has_started(each.node);
         });
}

void Job::refuse(NodeId id, const wire::AttemptRefused& refused, TimePoint now) {
  if (repeat_count() > 0) {
    return react(Occurrence::kUnfit, now, [&] {
      record("attempt_refused", refused.message, id);
      facts_.refused_by_node = true;
      const NodeId host = crew_.members().front().node;
      if (!refused.no_answer || !seems_cut_off(host))
        return kill_node(id, "it refused the attempt: " + refused.message, now);
      if (fleet_.alive(host)) kill_node(host, "no other node reaches it: " + refused.message, now);
    });
  }
  react(Occurrence::kRefused, now, [&] {
    record("attempt_refused", refused.message, id);
    if (!facts_.refusal)
      facts_.refusal = Refusal{Refusal::Kind::kCannotStart, id, refused.exit_code, refused.message};
    if (!plan_.hosts.empty()) facts_.refusal->by_node[id] = refused.message + advice_for(refused);
  });
}

void Job::hear(NodeId id, const wire::WorkersStarted& started, TimePoint now) {
  crew_.started(id);
  if (facts_.started) facts_.started = now;
  std::string text = fmt::format("{} workers", started.pids.size());
  if (started.warm_count > 0) text += fmt::format(", {} of them forked", started.warm_count);
  if (!started.executed_because.empty()) {
    text += "; executed because " + started.executed_because;
    if (!std::exchange(told_executed_, true))
      decide(Tell{fmt::format("{} executes its ranks instead of forking them: {}", names_.of(id),
                              started.executed_because)},
             "a warm start was wanted");
  }
  if (const NodePlan* started_on = crew_.find(id))
    decide(Record{.event = "workers_started",
                  .rank = started_on->first_rank,
                  .node = id,
                  .host = names_.host_of(id),
                  .text = std::move(text),
                  .attempt = attempt_,
                  .worker_count = started_on->worker_count},
           "for the record");
}

void Job::hear(NodeId id, const wire::WorkerExited& exited, TimePoint now) {
  if (!crew_.owns(id, exited.rank) || crew_.ended(exited.rank)) return;
  WorkerEnd end = worker_end(id, exited, phase_ == Phase::kStopping && now >= kill_from_);
  const bool failed =
      end.failed() && !end.after_stop && !end.died_at_exit() && !left_on_notice(preemption_.given(), end);
  const Occurrence what = !failed                  ? Occurrence::kWorkerEnded
                          : end.is_about_another() ? Occurrence::kPeerMissed
                                                   : Occurrence::kWorkerFailed;
  react(what, now, [&] {
    if (end.after_stop && phase_ < Phase::kStopping) crew_.gives_up(id);
    record("worker_exited", end_text(end), id, end.rank);
    crew_.end(end.rank);
    facts_.still.erase(end.rank);
    if (!end.failed()) hear_moved(end.rank, now);
    facts_.ends.push_back(std::move(end));
  });
}

// An agent that does not hear its launcher stops its workers and leaves. A WorkersGone from such an agent is
// ignored, because the node is lost right after it. The loss of the node then tells the reason.
void Job::hear(NodeId id, const wire::WorkersGone&, TimePoint now) {
  if (crew_.is_giving_up(id)) return;
  react(Occurrence::kNodeEmptied, now, [&] { crew_.emptied(id); });
}

void Job::hear(NodeId id, const wire::WorkerReported& reported, TimePoint now) {
  using enum wire::ReportKind;
  if (chronicle_.empty() || !crew_.owns(id, reported.rank)) return;
  const bool commits = chronicle_.note(reported);
  if (reported.kind == kHello) {
    preemption_.hello(reported.rank, reported.text);
    give_time_notice(now);
  }
  if (reported.kind == kPreempted) preemption_.leaves(reported.rank);
  if (reported.kind == kResumed && reported.text == "memory" && reported.rank == Rank(0))
    decide(Tell{fmt::format("attempt {} resumes from step {}, which was held in memory", attempt_,
                            reported.step)},
           "the memory has a newer step than the checkpoint directory");
  if (reported.kind == kStep && !facts_.hangs) facts_.groups.trains_in(reported.rank, reported.group);
  if (reported.kind == kStep || reported.kind == kHeartbeat) {
    // When a hang has been decided, later steps do not change the verdict. Such steps come because the job
    // lets workers continue that a signal had suspended. Otherwise these workers could not end.
    if (!facts_.hangs) facts_.hang.moved(reported.rank, reported.step);
    if (reported.kind == kStep) facts_.still.erase(reported.rank);
    // If no rank hangs any more, the next stall is worth a new line.
    if (facts_.hang.stalls().empty() && std::exchange(told_stall_, false)) stall_is_over(now);
  }
  if (reported.kind == kSaving && phase_ == Phase::kPreempting)
    decide(Tell{fmt::format("saving step {}{}", reported.step, preemption_.how_to_end_now())},
           "all ranks agree on this step");
  for (const wire::ReportKind kind : {kResumed, kCommitted, kSaving, kPreempted, kFenced}) {
    if (reported.kind == kind || (commits && kind == kCommitted))
      record(std::string(name_of(kind)), fmt::format("step {}", reported.step), id, reported.rank);
  }
  if (commits) grow_if_wanted(reported.step, now);
  if (reported.kind != kFenced) return;
  react(Occurrence::kFenced, now, [&] {
    if (!facts_.refusal) facts_.refusal = Refusal{Refusal::Kind::kFenced, id, kExitInternal, reported.text};
  });
}

void Job::handle(const PaceChanged& change, TimePoint) {
  if (chronicle_.empty() || !crew_.has(change.rank)) return;
  const NodeId node = crew_.node_of(change.rank);
  const std::string text =
      fmt::format("is {} than the others: {} a step against {}{}",
                  change.slower ? "slower" : "no longer slower", in_milliseconds(change.busy),
                  in_milliseconds(change.usual), change.part.empty() ? "" : ", in " + change.part);
  decide(Tell{fmt::format("{} {}", names_.of(change.rank, node), text)},
         "the other ranks wait for it in every step");
  record(change.slower ? "straggler" : "straggler_over", text, node, change.rank);
  chronicle_.note(change, node);
}

void Job::hear(NodeId id, const wire::WorkerStalled& stalled, TimePoint now) {
  if (!crew_.owns(id, stalled.rank)) return;
  const Stall stall{.rank = stalled.rank,
                    .node = id,
                    .stopped = stalled.stopped,
                    .hard = stalled.hard,
                    .what = stalled.what,
                    .section = stalled.section,
                    .step = stalled.step,
                    .since = TimePoint(from_ns(stalled.since_ns))};
  if (stalled.over) return hear_moved(stalled.rank, now);
  if (!stalled.frame.empty()) return hear_still({stall, stalled.frame}, now);
  const auto note = [&] {
    facts_.hang.add(stall);
    record(stalled.hard ? "worker_hangs" : "worker_stalls", stalled.what, id, stalled.rank);
    if (stalled.hard || told_stall_) return;  // one line is enough: usually the others wait for this rank
    // While a node is silent, this tells nothing. The rank may be waiting for that node, which will soon
    // answer or be lost.
    if (!fleet_.all_heard_since(now - kSilent)) return;
    const std::string text = fmt::format("{} {}", names_.of(stalled.rank, id), stalled.what);
    decide(Tell{chronicle_.stalled(text, stall.since)}, "it may hang");
    ask_for_stacks("a worker may hang");
  };
  react(stalled.hard ? Occurrence::kStalled : Occurrence::kMayHang, now, note);
}

// A rank can stay in one frame for a long time because it works there, or because it waits for another rank
// that works. So the training may hang only if no rank moves.
void Job::hear_still(StillRank rank, TimePoint now) {
  facts_.still[rank.stall.rank] = std::move(rank);
  check_still(now);
}

bool Job::all_stand_still() const {
  return !facts_.still.empty() && facts_.still.size() >= crew_.living_count();
}

bool Job::all_stand_at_their_limit() const {
  return std::ranges::all_of(facts_.still, [](const auto& each) { return each.second.stall.hard; });
}

// The end of a rank counts as a move, because the other ranks may have waited for this end, and may go on
// soon.
std::optional<TimePoint> Job::next_still() const {
  if (phase_ != Phase::kRunning || facts_.ends.empty() || !all_stand_still()) return std::nullopt;
  if (!told_still_) return facts_.ends.back().at + plan_.job.limits.hang_limit / 2;
  if (!all_stand_at_their_limit()) return std::nullopt;
  return facts_.ends.back().at + plan_.job.limits.hang_limit;
}

void Job::check_still(TimePoint now) {
  if (!all_stand_still()) return;
  const TimePoint last_end = facts_.ends.empty() ? TimePoint::min() : facts_.ends.back().at;
  const Duration limit = plan_.job.limits.hang_limit;
  const bool hard = all_stand_at_their_limit() && now >= last_end + limit;
  if (!hard && (told_still_ || now < last_end + limit / 2)) return;
  react(hard ? Occurrence::kStalled : Occurrence::kMayHang, now, [&] {
    for (const auto& [id, each] : facts_.still) {
      if (hard) facts_.hang.add(each.stall);
      record(hard ? "worker_hangs" : "worker_stalls", each.stall.what, each.stall.node, id);
    }
    if (hard) return;
    told_still_ = true;
    TimePoint since = last_end;
    for (const auto& [id, each] : facts_.still) since = std::max(since, each.stall.since);
    decide(Tell{chronicle_.stalled(still_text(now - since), since)}, "the training may hang");
  });
}

void Job::hear_moved(Rank rank, TimePoint now) {
  facts_.still.erase(rank);
  if (!facts_.hangs && std::exchange(told_still_, false)) stall_is_over(now);
}

void Job::stall_is_over(TimePoint now) {
  const std::string text = chronicle_.moved_on(now);
  if (!text.empty()) record("stall_over", text);
}

void Job::hear(NodeId id, const wire::WorkerStacks& stacks, TimePoint now) {
  if (phase_ != Phase::kDumping || !crew_.owns(id, stacks.rank)) return;
  facts_.hang.add_stacks(stacks.rank, id, stacks.text);
  if (facts_.hang.stacks_count() >= crew_.living_count()) react(Occurrence::kStacksEnded, now);
}

void Job::hear(NodeId id, const wire::WorkerUnkillable& unkillable, TimePoint) {
  if (!crew_.owns(id, unkillable.rank)) return;
  const std::string who =
      fmt::format("rank {} ({}, pid {})", unkillable.rank, names_.within(id), unkillable.pid);
  decide(Tell{fmt::format("{} {}", who, unkillable.what)}, "it keeps the attempt from ending");
  record("worker_unkillable", unkillable.what, id, unkillable.rank);
  facts_.unkillable.push_back({unkillable.rank, id, unkillable.pid, unkillable.what});
}

void Job::hear(NodeId id, const wire::LeftoversUnkillable& leftovers, TimePoint) {
  if (leftovers.left.empty()) return name_leftover("unknown whether processes are left", id);
  name_leftovers(leftovers.left, id);
}

void Job::name_leftovers(const std::vector<Leftover>& left, std::optional<NodeId> node) {
  constexpr std::size_t kMostNamed = 5;
  for (std::size_t i = 0; i < std::min(left.size(), kMostNamed); ++i)
    name_leftover(describe(left[i]), node ? node : left[i].node);
  if (left.size() > kMostNamed)
    name_leftover(fmt::format("{} more processes cannot be killed either", left.size() - kMostNamed), node);
}

void Job::leave_leftovers_behind() {
  awaits_leftovers_ = leftovers_remain_ = false;
  fleet_.leave_leftovers_behind();
}

void Job::name_leftover(const std::string& what, std::optional<NodeId> node) {
  std::string text = node ? fmt::format("{}: {}", names_.of(*node), what) : what;
  decide(Tell{text + "; left behind"}, "nobody waits for it");
  record("leftover_unkillable", what, node);
  facts_.leftovers.push_back(std::move(text));
}

void Job::hear(NodeId id, const wire::AgentRemark& remark, TimePoint) {
  decide(Tell{fmt::format("{}: {}", names_.of(id), remark.text)}, "the agent has something to say");
  if (remark.saved_step) chronicle_.saved(static_cast<std::int64_t>(*remark.saved_step));
  record("agent_notice", remark.text, id);
}

// Tells the user nothing now. If copies of logs are missing at the end of the job, the user is told then.
void Job::hear(NodeId id, const wire::LogsElsewhere& logs, TimePoint) {
  record("logs_elsewhere", logs.directory, id);
  logs_elsewhere_ = true;
}

// Returns how long to wait for agents that were told to leave.
Duration Job::leave_limit() const {
  // If the job keeps checkpoints in memory, the agents need this time to write them to the disk.
  if (plan_.job.limits.memory_tier_bytes > 0) return std::chrono::seconds(60);
  return std::chrono::seconds(logs_elsewhere_ ? 10 : 5);
}

// The rest of the logs is still to come. As long as pieces of logs arrive, the job waits for the rest.
void Job::hear(NodeId, const wire::LogPiece&, TimePoint now) {
  if (phase_ == Phase::kLeaving && deadline_ && deadline_->what == Deadline::What::kEnd)
    deadline_->at = std::max(deadline_->at, now + kLogsLimit);
}

// If log files are written slowly, an agent takes long to finish them. As long as its Pongs say that output
// is waiting, the job waits, too.
void Job::hear(NodeId id, const wire::Pong& pong, TimePoint now) {
  if (phase_ != Phase::kStopping || deadline_->what != Deadline::What::kEnd || !no_rank_lives()) return;
  if (pong.output_waits && crew_.with_workers().contains(id))
    deadline_->at = std::max(deadline_->at, now + kWriteMargin);
}

}  // namespace muster::launcher
