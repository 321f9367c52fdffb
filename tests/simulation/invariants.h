// Checks every simulated job against the guarantees G1, G2, G6, G7 and G8 of docs/architecture.md.
//
// Each function compares an observation with what really happened, and keeps a violation as a finding.
// Without GoogleTest: the program `simulate` and the tests read the findings. One thread.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::simulation {

// The culprit of an attempt: a rank, or a node whose agent is gone; or none.
struct Culprit {
  std::optional<Rank> rank{};
  std::optional<NodeId> node{};
  std::vector<int> exit_codes{};  // the possible exit codes of the job if this is the culprit; empty: unknown
  bool is_blamed_by(const launcher::Verdict& verdict) const;
};
std::string text_of(const Culprit& culprit);
Culprit blamed_by(const launcher::Verdict& verdict);

struct Finding {
  Duration at{};  // since the simulation began
  std::string text;
};

class Invariants {
 public:
  explicit Invariants(std::function<Duration()> age) : age_(std::move(age)) {}

  // G1: when a launcher has ended, nothing of its job lives.
  void nothing_is_left(int process_count, int agent_count);
  // G1: a job whose launcher is gone ends when the controller grace, the grace and five seconds have passed.
  void a_job_without_launcher_has_ended(int process_count, int agent_count);
  // G2: no worker of an attempt starts while a process of an earlier one of its job lives, on any node.
  void attempts_do_not_overlap(NodeId node, Attempt attempt, int earlier_process_count);
  // G2: no number of an attempt is used twice in one checkpoint directory, by any launch.
  void attempt_is_new(Attempt attempt, std::optional<Attempt> newest);
  // G2: the ranks of an attempt are 0 to N-1, no node is listed twice, and no node has more ranks than
  // allowed.
  struct Membership {
    struct Member {
      NodeId node;
      Rank first_rank;
      int worker_count = 0;
      int room = 0;  // for workers
    };
    std::vector<Member> nodes;
    int min_nodes = 0;
    int max_nodes = 0;
  };
  void ranks_are_whole(const Membership& membership);
  // G2: messages about an older attempt's start or end do not affect a newer one: each rank starts once in an
  // attempt.
  void rank_starts_once(Attempt attempt, Rank rank, bool again);
  // G6: the verdict names one of the possible culprits, never a victim; and the exit code matches that
  // culprit's fault.
  void blames_one_of(const launcher::Verdict& verdict, std::span<const Culprit> possible);
  // G6: a class that needs special evidence needs a fault that leaves this evidence.
  void class_is_true(const launcher::Verdict& verdict, bool happened);
  // G6: the launcher kills no agent without a fault.
  void only_the_touched_are_killed(NodeId node, bool touched);
  // G7: after the last fault the job makes a step or ends, within the limit.
  void makes_progress(Duration since, Duration limit);
  // G7: the launcher restarts a job only for a reason, and no more often than allowed.
  void restarts_are_called_for(int restart_count, int cause_count, int allowed);
  // G7: the launcher does not give a job up while restarts are left.
  void gives_up_for_a_reason(const launcher::Verdict& verdict, int restart_count, int allowed);
  // G8: success is reported only if every rank of the last attempt exited 0.
  void success_is_earned(const launcher::Verdict& verdict, int world_size, int succeeded_count);
  // G8: the exit code says who ended the job; 75 means that all its work is saved.
  void end_was_wanted(const launcher::Verdict& verdict, bool wanted, bool code_fits);
  void preemption_is_saved(const launcher::Verdict& verdict, bool saved);
  // Any other invariant; `what` names it in a sentence.
  void holds(bool condition, const std::string& what);

  const std::vector<Finding>& findings() const { return findings_; }

 private:
  void fail(std::string text);

  std::function<Duration()> age_;
  std::vector<Finding> findings_;
};

}  // namespace muster::simulation
