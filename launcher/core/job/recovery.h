// Decides what follows when an attempt has ended. It is another attempt, or the end of the job with a
// verdict.
//
// This knows how often the job was restarted and why, and whether the user has forbidden another restart. The
// policy (restart_policy.h) decides whether and when an attempt is repeated. Pure; the time is passed in.
#pragma once

#include <optional>

#include "launcher/core/job/counts.h"
#include "launcher/core/job/restart_policy.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

class Recovery {
 public:
  // Facts about the attempt that has ended. The verdict does not contain them.
  struct Circumstances {
    bool ran = false;               // its workers were started
    bool cannot_start = false;      // it was refused for a temporary reason, such as a full disk
    bool another_network = false;   // the nodes did not reach each other, but may do so over another network
    std::int64_t commit_count = 0;  // checkpoints that the whole job has committed so far
    std::optional<StopWish> notice{};
    bool committed_on_notice = false;
    bool time_is_up = false;
  };
  struct Next {
    Verdict verdict;  // final, unless `restart` is set
    std::optional<RestartDecision> restart{};
  };
  explicit Recovery(const RestartLimits& limits) : policy_(limits) {}

  Next after(Verdict verdict, const Circumstances& attempt, TimePoint now);
  // Returns the verdict for the case that the launcher leaves without waiting for the agents.
  Verdict abandoned(Verdict verdict) const;
  // Forbids each further restart. Call this if the user asks for the end while an attempt that has failed is
  // being stopped.
  void forbid(const StopWish& wish) { forbidden_by_ = forbidden_by_.value_or(wish); }
  bool is_forbidden() const { return forbidden_by_.has_value(); }

  // Returns how many attempts followed an attempt that failed or could not start.
  std::int32_t restart_count() const { return restart_count_; }
  // Returns restart_count(), plus the number of attempts that began because nodes were added.
  std::int32_t repeat_count() const { return restart_count_ + growth_count_; }
  // Returns how many restarts currently count towards --max-restarts.
  std::int32_t used(TimePoint now) const { return policy_.used(now); }
  // Returns the failure that led to the current attempt. If that attempt is not a restart, returns nullopt.
  const std::optional<Verdict>& repeated() const { return repeated_; }

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(policy_, restart_count_, growth_count_, commits_before_, repeated_, forbidden_by_);
  }
  // Returns whether the counters that were read from a journal have possible values.
  bool restored() const { return is_count(restart_count_) && is_count(growth_count_); }

 private:
  bool may_help(const Verdict& verdict, const Circumstances& attempt) const;
  std::optional<Verdict> forbidding(const Verdict& failed, const Circumstances& attempt) const;
  Next repeat(Verdict verdict, RestartDecision decision);

  RestartPolicy policy_;
  std::int32_t restart_count_ = 0;
  std::int32_t growth_count_ = 0;
  std::int64_t commits_before_ = 0;  // commit_count at the previous failure
  std::optional<Verdict> repeated_;
  std::optional<StopWish> forbidden_by_;
};

}  // namespace muster::launcher
