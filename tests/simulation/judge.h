// Compares the decisions of a launch with the truth: the members, the culprit, the exit code, the number of
// restarts.
//
// Looks at the job after each step of the launcher; the launch supplies other facts. One thread.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "launcher/core/job/job.h"
#include "tests/simulation/training.h"

namespace muster::simulation {

// The wishes of a launch's user.
struct Wishes {
  int interrupt_count = 0;
  bool noticed = false;
  bool cancelled = false;
  std::optional<int> restarts_before{};  // restarts when the first wish came
};

class Judge {
 public:
  // Facts from the launch, not from the job.
  struct Known {
    const Wishes& wishes;
    const Training* ranks = nullptr;  // of the current attempt
    bool fenced = false;              // by a newer attempt in the directory
    int denial_count = 0;             // attempts that the disk denied
    bool may_give_up = false;         // a process cannot be killed
    bool slept = false;               // the launcher was stopped for so long that its agents left
    bool ranks_fenced() const { return ranks != nullptr && ranks->fenced(); }
  };
  Judge(World& world, int launch) : world_(world), launch_(launch) {}

  void look(const launcher::Job& job, const Known& known);
  // Whether the current attempt must fail because of this node's fault.
  bool is_decisive(const launcher::Job& job, NodeId node) const;

 private:
  void check_members(const launcher::Job& job);
  std::set<NodeId> members_now(const launcher::Job& job);
  void judge(const launcher::Job& job, const Known& known);
  void judge_wish(const launcher::Verdict& verdict, const Known& known);
  void judge_failure(const launcher::Verdict& verdict, const Known& known, std::vector<Culprit> culprits);
  void judge_end(const launcher::Job& job, const Known& known);
  bool may_expect_input(const Known& known) const;
  GroundTruth& truth() const { return *world_.truths.at(launch_); }

  World& world_;
  int launch_;
  // The state at the last look.
  bool gathered_ = false;
  std::set<NodeId> members_;
  struct Ends {
    int repeat_count = 0;
    bool leaves = false;
    // Restarts at the verdict: a loss that ends an attempt may belong to the restart before.
    std::optional<NodeId> node{};
    std::optional<TimePoint> at{};
    bool operator==(const Ends&) const = default;
  } ends_;
  Attempt attempt_;
  bool saved_on_notice_ = false;
  std::optional<launcher::Verdict> repeated_;  // why this attempt is a restart
};

}  // namespace muster::simulation
