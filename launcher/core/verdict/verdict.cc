#include "launcher/core/verdict/verdict.h"

#include <algorithm>
#include <csignal>
#include <fmt/ranges.h>
#include <iterator>
#include <utility>

#include "launcher/core/text/words.h"
#include "launcher/core/verdict/exception_text.h"
#include "launcher/core/verdict/hints.h"

namespace muster::launcher {

namespace {

using Kind = Verdict::Kind;

constexpr const char* kTorchExitHint =
    "if the script uses torch.distributed, its last line should be torch.distributed.destroy_process_group(): "
    "otherwise torch's threads may abort while Python ends; "
    "rarely they abort even then, and os._exit(0) as the very last line prevents that";
constexpr const char* kExitHint =
    "a library crashed while Python ended: "
    "before its last line, the script should close what it uses and join its threads";
constexpr const char* kFinalizeHint =
    "if an exception has ended the script of a rank, mpi4py waits for the other ranks in MPI_Finalize: "
    "with `-m mpi4py` before the script's name, the exception ends the job at once";
constexpr const char* kStacksHint = "the stacks of all ranks are in attempt_*/rank_*/stacks.txt";

bool earlier(const WorkerEnd& left, const WorkerEnd& right) {
  return std::pair(left.at, left.rank) < std::pair(right.at, right.rank);
}

template <class Predicate>
const WorkerEnd* first_of(const std::vector<WorkerEnd>& ends, Predicate predicate) {
  const WorkerEnd* first = nullptr;
  for (const WorkerEnd& end : ends) {
    if (end.failed() && predicate(end) && (first == nullptr || earlier(end, *first))) first = &end;
  }
  return first;
}

const WorkerEnd* first_failure(const AttemptFacts& facts) {
  const WorkerEnd* first =
      first_of(facts.ends, [](const WorkerEnd& end) { return !end.after_stop && !end.died_at_exit(); });
  if (first == nullptr) return first_of(facts.ends, [](const WorkerEnd& end) { return !end.after_stop; });
  if (!first->is_about_another()) return first;
  const WorkerEnd* cause = first_of(facts.ends, [first](const WorkerEnd& end) {
    return !end.by_stop && end.at <= first->at + kPeerWindow && !end.is_about_another();
  });
  return cause != nullptr ? cause : first;
}

// The rank `missing` failed because another rank was gone. Returns the rank that exited with 0 too early. It
// must be a rank that may train with `missing`. If several such ranks exited before `missing` failed, returns
// the last of these. If no such rank did, returns the first one that exited within kPeerWindow after the
// failure. Its exit can come so late, because a process closes its connections before it ends.
const WorkerEnd* who_left(const AttemptFacts& facts, const WorkerEnd& missing) {
  if (!shows_missed_peer(missing.text())) return nullptr;
  const auto trained_apart = [&](Rank rank) { return facts.groups.apart(rank, missing.rank); };
  // If all other ranks of the group have exited with 0 before the failure, the training was over. Then none
  // of them left too early. In a group of two ranks, this is not certain: there is only one other rank, and
  // it may be the one that left too early.
  const auto done = std::ranges::count_if(facts.ends, [&](const WorkerEnd& end) {
    return !end.failed() && !end.after_stop && end.at < missing.at && !trained_apart(end.rank);
  });
  std::int32_t mates = 0;
  for (std::int32_t rank = 0; rank < facts.world_size; ++rank) mates += trained_apart(Rank(rank)) ? 0 : 1;
  if (mates > 2 && done == mates - 1) return nullptr;
  const WorkerEnd* before = nullptr;
  const WorkerEnd* after = nullptr;
  for (const WorkerEnd& end : facts.ends) {
    if (end.failed() || end.after_stop || end.at > missing.at + kPeerWindow || trained_apart(end.rank))
      continue;
    if (end.at > missing.at) {
      if (after == nullptr || end.at < after->at) after = &end;
    } else if (before == nullptr || before->at < end.at) {
      before = &end;
    }
  }
  return before != nullptr ? before : after;
}

const AgentLoss* first_loss(const AttemptFacts& facts) {
  const auto first = std::ranges::min_element(
      facts.losses, {}, [](const AgentLoss& loss) { return std::pair(loss.at, loss.node); });
  return first == facts.losses.end() ? nullptr : &*first;
}

// Returns whether the loss came before the failure. If a node dies, its peers notice this through their own
// connections, as fast as the launcher does. So if a worker on another node fails shortly before the loss, it
// is a victim of the loss. If a worker on the lost node itself failed, this came first, because the agent was
// still alive and reported it.
bool precedes(const AgentLoss& loss, const WorkerEnd& failure) {
  constexpr Duration kNoticed = std::chrono::milliseconds(100);
  if (loss.node == failure.node) return loss.at <= failure.at;
  return loss.at <= failure.at + (shows_lost_peer(failure.text()) ? kPeerWindow : kNoticed);
}

Verdict make(Kind kind, int exit_code, std::string origin, std::string cause) {
  Verdict verdict;
  verdict.kind = kind;
  verdict.exit_code = exit_code;
  verdict.origin = std::move(origin);
  verdict.cause = std::move(cause);
  return verdict;
}

Verdict refused(const Refusal& refusal, const NodeNames& names) {
  const std::string where = refusal.node && refusal.by_node.empty() ? names.of(*refusal.node) + ": " : "";
  Verdict verdict = make(Kind::kRefused, refusal.exit_code, "launcher", where + refusal.message);
  verdict.node = refusal.node;
  return verdict;
}

Verdict interrupted(const StopWish& wish) {
  return make(wish.cancelled ? Kind::kCancelled : Kind::kInterrupted, exit_code_of_signal(wish.signal),
              "user", "stopped by " + name_of(wish));
}

Verdict out_of_time(bool committed_on_notice) {
  if (committed_on_notice) {
    return make(Kind::kTimeLimit, kExitPreempted, "launcher",
                "the time limit was reached; a checkpoint was committed before it");
  }
  return make(Kind::kTimeLimit, kExitTimeOut, "launcher", "the time limit was reached");
}

Verdict lost(const AgentLoss& loss, const AttemptFacts& facts, const NodeNames& names) {
  const bool here = names.host_of(loss.node).empty();  // here an agent runs as soon as it is started
  const bool was_there = loss.had_joined || facts.refused_by_node || facts.started || here;
  Verdict verdict = make(loss.out_of_memory ? Kind::kOutOfMemory : Kind::kNodeLost,
                         loss.out_of_memory ? kExitOutOfMemory : kExitNodesMissing, "launcher",
                         fmt::format("{} {}: {}", names.of(loss.node),
                                     was_there ? "was lost" : "could not be started", loss.how));
  verdict.node = loss.node;
  verdict.at = loss.at;
  return verdict;
}

Kind kind_of(const WorkerEnd& end) {
  if (end.out_of_memory()) return Kind::kOutOfMemory;
  if (!end.gpu_fault.empty()) return Kind::kGpu;
  if (shows_full_disk(end.text())) return Kind::kDiskFull;
  return end.signal != 0 ? Kind::kSignal : Kind::kExit;
}

Verdict failed(const WorkerEnd& end, const AttemptFacts& facts, const NodeNames& names) {
  const bool out_of_memory = end.out_of_memory();
  Verdict verdict = make(kind_of(end), out_of_memory ? kExitOutOfMemory : exit_code_for(end),
                         out_of_memory ? "launcher" : "worker",
                         fmt::format("{} {}", names.of(end.rank, end.node), end_text(end)));
  verdict.culprit = end;
  verdict.rank = end.rank;
  verdict.node = end.node;
  verdict.at = end.at;
  verdict.evidence = evidence_of(end);
  const bool by_itself = end.signal != SIGKILL && end.signal != SIGTERM;
  const bool of_torch = end.signal == SIGABRT || end.text().contains("torch");
  verdict.hint = end.died_at_exit() && by_itself
                     ? of_torch ? kTorchExitHint : kExitHint
                     : hint_for(end.text() + "\n" + end_text(end), facts.chose_python);
  return verdict;
}

// Returns the verdict for this failure: the rank `left` exited with 0 too early. `missing` is the first rank
// that could not go on without `left`.
Verdict left_early(const WorkerEnd& left, const WorkerEnd& missing, const AttemptFacts& facts,
                   const NodeNames& names) {
  const auto step = facts.steps.find(left.rank);
  Verdict verdict =
      make(Kind::kExit, 1, "worker",
           fmt::format("rank {} {}{} while the others still trained", left.rank, end_text(left),
                       step == facts.steps.end() ? "" : fmt::format(" at step {}", step->second)));
  verdict.culprit = left;
  verdict.rank = left.rank;
  verdict.node = left.node;
  verdict.at = left.at;
  verdict.evidence = {fmt::format("rank {} ran on {}; {} missed it first, and {}", left.rank,
                                  names.of(left.node), names.of(missing.rank, missing.node),
                                  end_text(missing))};
  verdict.hint =
      "all ranks must make the same number of steps, or train inside model.join(); "
      "a rank that gives up must exit with a code other than 0";
  return verdict;
}

std::string text_of(const std::vector<Rank>& ranks) {
  constexpr std::size_t kShown = 4;
  if (ranks.size() > kShown) return fmt::format("{} ranks, such as {},", ranks.size(), ranks.front());
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), ranks.end() - 1, ", "), ranks.back());
}

// When a script of mpi4py ends, also after an exception, Python calls MPI_Finalize. There the rank waits for
// the others, which wait for it elsewhere. The stacks show this only if eu-stack could look at the rank.
const char* hint_of_hang(const AttemptFacts& facts, const std::vector<Stall>& suspects,
                         const std::vector<std::string>& evidence) {
  const auto in_finalize =
      std::ranges::count_if(evidence, [](const std::string& line) { return line.contains("MPI_Finalize"); });
  const bool after_exception = std::ranges::any_of(facts.ends, [&](const WorkerEnd& end) {
    return std::ranges::find(suspects, end.rank, &Stall::rank) != suspects.end() &&
           end.text().contains("Traceback (most recent call last)");
  });
  const bool some_finalize = in_finalize > 0 && std::cmp_less(in_finalize, evidence.size());
  return some_finalize || after_exception ? kFinalizeHint : kStacksHint;
}

// Returns the verdict about a hang whose cause is not known. It blames no rank.
Verdict hung_together(const AttemptFacts& facts, const std::vector<Stall>& suspects, const NodeNames& names) {
  const Stall& first = suspects.front();
  std::vector<Rank> ranks;
  for (const Stall& each : suspects) ranks.push_back(each.rank);
  std::ranges::sort(ranks);
  const std::string place = facts.hang.place_of(suspects);
  const std::string who = ranks.size() == 1
                              ? "nothing is known about the others"
                              : fmt::format("{} hang{}", text_of(ranks), place.empty() ? "" : " in " + place);
  Verdict verdict = make(Kind::kHang, kExitTimeOut, "launcher",
                         fmt::format("no rank can be singled out: {}; {} {}", who,
                                     names.of(first.rank, first.node), first.what));
  verdict.suspects = std::move(ranks);
  verdict.at = first.since;
  verdict.stopped_from_outside = std::ranges::all_of(suspects, &Stall::stopped);
  verdict.evidence = facts.hang.evidence(facts.groups);
  verdict.hint = hint_of_hang(facts, suspects, verdict.evidence);
  return verdict;
}

Verdict hung(const AttemptFacts& facts, const NodeNames& names) {
  const std::vector<Stall> suspects = facts.hang.suspects(facts.groups);
  const Stall& stall = suspects.front();
  const bool another_ended = std::ranges::any_of(facts.ends, [&](const WorkerEnd& end) {
    return end.rank != stall.rank && !facts.groups.apart(stall.rank, end.rank);
  });
  // If a rank is alone in its group and waits, it waits for another group.
  const bool alone = facts.groups.is_alone(stall.rank, facts.world_size) &&
                     (facts.world_size == 1 || !facts.hang.is_known_to_wait(stall.rank));
  const bool compared =
      alone || stall.stopped || another_ended || facts.hang.knows_others_than(stall.rank, facts.groups);
  if (suspects.size() > 1 || !compared) return hung_together(facts, suspects, names);
  std::string cause = fmt::format("{} hangs: it {}", names.of(stall.rank, stall.node), stall.what);
  if (!stall.section.empty() && !stall.what.contains(stall.section))
    cause += fmt::format(" in section {}", stall.section);
  Verdict verdict = make(Kind::kHang, kExitTimeOut, "launcher", std::move(cause));
  verdict.rank = stall.rank;
  verdict.node = stall.node;
  verdict.at = stall.since;
  verdict.stopped_from_outside = stall.stopped;
  const auto end = std::ranges::find(facts.ends, stall.rank, &WorkerEnd::rank);
  if (end != facts.ends.end()) verdict.culprit = *end;
  verdict.evidence = facts.hang.evidence(facts.groups);
  verdict.hint = hint_of_hang(facts, suspects, verdict.evidence);
  return verdict;
}

bool all_did_their_work(const AttemptFacts& facts) {
  return facts.ends.size() == static_cast<std::size_t>(facts.world_size) &&
         std::ranges::all_of(facts.ends,
                             [](const WorkerEnd& end) { return !end.failed() || end.died_at_exit(); });
}

bool all_succeeded(const AttemptFacts& facts) {
  return facts.ends.size() == static_cast<std::size_t>(facts.world_size) &&
         std::ranges::none_of(facts.ends, &WorkerEnd::failed);
}

// Returns whether each rank saved a checkpoint and left by itself. If all exited with 0, and none said that
// it left because of the notice, the training was over before the notice arrived. Then the checkpoint is an
// ordinary one.
bool all_saved(const AttemptFacts& facts) {
  const auto on_notice = [&](const WorkerEnd& end) { return left_on_notice(facts.notice_given, end); };
  return facts.notice_given && facts.committed_on_notice &&
         facts.ends.size() == static_cast<std::size_t>(facts.world_size) &&
         std::ranges::all_of(facts.ends,
                             [&](const WorkerEnd& end) { return !end.failed() || on_notice(end); }) &&
         (facts.told_preempted || std::ranges::any_of(facts.ends, on_notice));
}

// The exit code tells a scheduler whether to restart the job. It should restart a job that it preempted
// itself, but not a job that the user stopped.
Verdict left_with_checkpoint(const StopWish& notice) {
  if (notice.signal == SIGINT) return interrupted(notice);
  return make(Kind::kPreempted, kExitPreempted, "launcher",
              "preempted: all ranks saved a checkpoint and left; start the job again to continue");
}

Verdict incomplete(const AttemptFacts& facts) {
  return make(
      Kind::kInternal, kExitInternal, "launcher",
      fmt::format("{} of {} ranks succeeded; how the others ended is unknown",
                  std::ranges::count_if(facts.ends, [](const WorkerEnd& end) { return !end.failed(); }),
                  facts.world_size));
}

// If it is known which rank is to blame, takes the step of this rank. Otherwise takes the highest step. The
// steps of other ranks are different each time, because these ranks may have continued for a while or may be
// behind.
void add_step(Verdict& verdict, const AttemptFacts& facts) {
  const auto own = verdict.rank ? facts.steps.find(*verdict.rank) : facts.steps.end();
  if (own != facts.steps.end()) {
    verdict.step = own->second;
    return;
  }
  for (const auto& [rank, step] : facts.steps) verdict.step = std::max(verdict.step.value_or(step), step);
}

void add_collateral(Verdict& verdict, const AttemptFacts& facts) {
  for (const WorkerEnd& end : facts.ends) {
    const auto& suspects = verdict.suspects;
    const bool suspected = std::ranges::find(suspects, end.rank) != suspects.end();
    if (end.failed() && end.rank != verdict.rank && !suspected) verdict.collateral.push_back(end.rank);
  }
  std::ranges::sort(verdict.collateral);
  const bool of_node = verdict.node && !verdict.rank;
  verdict.collateral_count =
      of_node ? (facts.started ? facts.world_size : 0) : static_cast<std::int32_t>(verdict.collateral.size());
}

void add_life(Verdict& verdict, const AttemptFacts& facts) {
  if (!facts.started) return;
  TimePoint end = verdict.at.value_or(*facts.started);
  if (!verdict.at) {
    for (const WorkerEnd& each : facts.ends) end = std::max(end, each.at);
  }
  verdict.lived = std::max(Duration::zero(), end - *facts.started);
  verdict.at_start = !facts.stepped && !facts.shrunk;
}

// Notes whether a later attempt may succeed. A program that exits at once with kExitUsage would fail again.
// So would a script with a mistake. Other programs report a permanent error in their error files. If the next
// attempt has more ranks, it may still succeed.
void add_hope(Verdict& verdict, const AttemptFacts& facts) {
  constexpr Duration kAtOnce = std::chrono::seconds(10);
  // Many scripts do not report their steps. If one fails within this time, only little work is lost.
  constexpr Duration kEarly = std::chrono::seconds(300);
  if (verdict.kind == Kind::kSignal && all_did_their_work(facts)) {
    verdict.cannot_heal = true;
    verdict.final_because = "all ranks had run their last line";
  }
  if (verdict.kind != Kind::kExit) return;
  const bool wrong_use = facts.started && verdict.culprit->exit_code == kExitUsage && facts.steps.empty() &&
                         verdict.lived < kAtOnce;
  const bool final = verdict.culprit->final && !facts.shrunk;
  const std::string_view mistake = facts.first && !facts.shrunk && facts.steps.empty() &&
                                           verdict.lived < kEarly && verdict.culprit->exit_code == 1
                                       ? mistake_in_script(verdict.culprit->exception)
                                       : "";
  verdict.cannot_heal = wrong_use || final || !mistake.empty();
  if (final) {
    verdict.final_because = "the program reported a permanent error";
  } else if (wrong_use) {
    verdict.final_because = fmt::format("exit code {} within {:g} s and before a step means wrong usage",
                                        kExitUsage, in_seconds(kAtOnce));
  } else if (!mistake.empty()) {
    verdict.final_because =
        fmt::format("{} in the first attempt, within {:g} s and before a step, means a mistake in the script",
                    mistake, in_seconds(kEarly));
  }
}

Verdict failure_of(AttemptFacts facts, const NodeNames& names) {
  std::erase_if(facts.ends, [&](const WorkerEnd& end) { return left_on_notice(facts.notice_given, end); });
  const WorkerEnd* failure = first_failure(facts);
  const AgentLoss* loss = first_loss(facts);
  Verdict verdict;
  if (facts.hangs) {
    verdict = hung(facts, names);
  } else if (loss != nullptr && (failure == nullptr || precedes(*loss, *failure))) {
    verdict = lost(*loss, facts, names);
    verdict.refused_by_node = facts.refused_by_node;
    const bool before_start = !facts.refused_by_node && !facts.started;
    verdict.lost_before_start = before_start && loss->had_joined;
    verdict.never_came = before_start && !loss->had_joined;
  } else if (failure != nullptr) {
    const WorkerEnd* left = who_left(facts, *failure);
    verdict = left != nullptr ? left_early(*left, *failure, facts, names) : failed(*failure, facts, names);
  } else if (facts.grows) {
    return make(Kind::kGrown, kExitInternal, "user", "nodes were added");
  } else if (facts.notice_given) {  // the ranks left without saving
    return facts.notice.signal != 0 ? interrupted(facts.notice) : out_of_time(facts.committed_on_notice);
  } else {
    return incomplete(facts);
  }
  add_step(verdict, facts);
  add_collateral(verdict, facts);
  add_life(verdict, facts);
  add_hope(verdict, facts);
  return verdict;
}

}  // namespace

bool Verdict::restart_may_help() const {
  switch (kind) {
    case Kind::kExit:
    case Kind::kSignal: return !cannot_heal;
    case Kind::kOutOfMemory:
    case Kind::kHang:
    case Kind::kGpu:
    case Kind::kDiskFull:
    case Kind::kNodeLost:
    case Kind::kInternal: return true;
    case Kind::kSucceeded:
    case Kind::kPreempted:
    case Kind::kTimeLimit:
    case Kind::kRefused:
    case Kind::kInterrupted:
    case Kind::kCancelled:
    case Kind::kGrown: return false;
  }
  return false;
}

bool Verdict::is_early_leave() const {
  return kind == Kind::kExit && culprit && !culprit->failed();
}

std::string Verdict::cause_and_step() const {
  if (!step || is_early_leave()) return cause;
  // The cause of a lost node ends with a message of ssh. A comma separates the step from this message.
  return fmt::format("{}{} at step {}", cause, kind == Kind::kNodeLost ? "," : "", *step);
}

std::string name_of(const StopWish& wish) {
  return wish.cancelled ? "`launch cancel`" : signal_name(wish.signal);
}

std::string_view name_of(Kind kind) {
  constexpr std::string_view kNames[] = {"succeeded", "exit",       "signal",    "out_of_memory",
                                         "hang",      "gpu",        "disk_full", "node_lost",
                                         "preempted", "time_limit", "refused",   "interrupted",
                                         "cancelled", "internal",   "grown"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view cause_of_end(std::string_view cause) {
  constexpr std::string_view kStopped = "stopped ";
  return cause.substr(cause.starts_with("stopped by ") ? kStopped.size() : 0);
}

bool left_on_notice(bool notice_given, const WorkerEnd& end) {
  return notice_given && (end.died_at_exit() || (end.signal == 0 && end.exit_code == kExitPreempted));
}

Verdict judge(const AttemptFacts& facts, const NodeNames& names) {
  Verdict verdict;
  if (all_saved(facts)) {
    verdict = left_with_checkpoint(facts.notice);
  } else if (facts.interrupted_by) {
    verdict = interrupted(*facts.interrupted_by);
  } else if (facts.out_of_time) {
    verdict = out_of_time(facts.committed_on_notice);
  } else if (facts.refusal) {
    verdict = refused(*facts.refusal, names);
  } else if (all_succeeded(facts)) {
    verdict = make(Kind::kSucceeded, 0, "none", "all ranks succeeded");
  } else {
    verdict = failure_of(facts, names);
  }
  for (const Unkillable& each : facts.unkillable) {
    verdict.evidence.push_back(
        fmt::format("rank {} ({}, pid {}) {}", each.rank, names.within(each.node), each.pid, each.what));
  }
  for (const std::string& each : facts.leftovers) verdict.evidence.push_back(each);
  return verdict;
}

Verdict stopped_after(const Verdict& failed, const StopWish& wish) {
  return ended_after(failed, interrupted(wish));
}

Verdict out_of_time_after(const Verdict& failed, bool committed_on_notice) {
  return ended_after(failed, out_of_time(committed_on_notice));
}

Verdict ended_after(const Verdict& failed, const Verdict& end) {
  Verdict verdict = failed;
  verdict.kind = end.kind;
  const bool refused = end.kind == Kind::kRefused && end.exit_code != kExitNodesMissing;
  verdict.exit_code = refused ? kExitInternal : end.exit_code;
  verdict.origin = end.origin;
  verdict.gave_up = end.gave_up;
  verdict.final_because = end.final_because;
  verdict.cause = fmt::format("{}, after {}", end.cause, failed.cause);
  return verdict;
}

int exit_code_of_path_error(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kPermission:
    case ErrorCode::kCorrupt: return kExitUsage;
    default: return kExitInternal;
  }
}

}  // namespace muster::launcher
