// Holds what a launch decides against the truth: who takes part, who is blamed, which exit code, how often it
// is tried again.
//
// Looks at the job after everything that the launcher did; the launch tells what else is known. One thread.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "launcher/core/job/job.h"
#include "tests/simulation/training.h"

namespace muster::simulation {

// What the user of a launch wants.
struct Wishes {
  int interrupt_count = 0;
  bool noticed = false;
  bool cancelled = false;
  std::optional<int> restarts_before{};  // when the first of them came
};

class Judge {
 public:
  // What the launch knows beside the job.
  struct Known {
    const Wishes& wishes;
    const Training* ranks = nullptr;  // of the attempt at hand
    bool fenced = false;              // by the directory
    int denial_count = 0;             // because of the disk
    bool may_give_up = false;         // something cannot be killed
    bool slept = false;               // the launcher, so long that its agents left
    bool ranks_fenced() const { return ranks != nullptr && ranks->fenced(); }
  };
  Judge(World& world, int launch) : world_(world), launch_(launch) {}

  void look(const launcher::Job& job, const Known& known);
  // Of a fault of this node: whether the attempt at hand is bound to fail by it.
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
  // As last seen.
  bool gathered_ = false;
  std::set<NodeId> members_;
  struct Ends {
    int repeat_count = 0;
    bool leaves = false;
    // Of the verdict: an attempt may end by a loss that belongs to the restart before.
    std::optional<NodeId> node{};
    std::optional<TimePoint> at{};
    bool operator==(const Ends&) const = default;
  } ends_;
  Attempt attempt_;
  bool saved_on_notice_ = false;
  std::optional<launcher::Verdict> repeated_;  // why this attempt is a restart
};

}  // namespace muster::simulation
