// What follows an attempt that has ended: another one, or the end of the job and its verdict.
//
// Knows how often the job was restarted and why, and whether the user has forbidden another restart. Whether
// and when an attempt is repeated is decided by the policy (restart_policy.h). Pure; the time is passed in.
#pragma once

#include <optional>

#include "launcher/core/job/counts.h"
#include "launcher/core/job/restart_policy.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

class Recovery {
 public:
  // What matters of the attempt that has ended, beside its verdict.
  struct Circumstances {
    bool ran = false;               // its workers were started
    bool cannot_start = false;      // it was refused, for a reason that may pass, such as a full disk
    bool another_network = false;   // by which the nodes, which do not reach each other, may
    std::int64_t commit_count = 0;  // checkpoints that the whole job has committed until now
    std::optional<StopWish> notice{};
    bool committed_on_notice = false;
    bool time_is_up = false;
  };
  struct Next {
    Verdict verdict;  // final, if there is no restart
    std::optional<RestartDecision> restart{};
  };
  explicit Recovery(const RestartLimits& limits) : policy_(limits) {}

  Next after(Verdict verdict, const Circumstances& attempt, TimePoint now);
  // The verdict of a job that is left at once.
  Verdict abandoned(Verdict verdict) const;
  // The user wants the end while a failed attempt is being stopped.
  void forbid(const StopWish& wish) { forbidden_by_ = forbidden_by_.value_or(wish); }
  bool is_forbidden() const { return forbidden_by_.has_value(); }

  // Attempts that followed one which had failed, or could not be used.
  std::int32_t restart_count() const { return restart_count_; }
  // The same, and those that followed one which was ended for added nodes.
  std::int32_t repeat_count() const { return restart_count_ + growth_count_; }
  // Restarts that count against --max-restarts now.
  std::int32_t used(TimePoint now) const { return policy_.used(now); }
  // The failure that the attempt at hand repeats; nothing: it is no restart.
  const std::optional<Verdict>& repeated() const { return repeated_; }

  // What a journal keeps of it (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(policy_, restart_count_, growth_count_, commits_before_, repeated_, forbidden_by_);
  }
  // Whether these fields, which were read, can be its own.
  bool restored() const { return is_count(restart_count_) && is_count(growth_count_); }

 private:
  bool may_help(const Verdict& verdict, const Circumstances& attempt) const;
  std::optional<Verdict> forbidding(const Verdict& failed, const Circumstances& attempt) const;
  Next repeat(Verdict verdict, RestartDecision decision);

  RestartPolicy policy_;
  std::int32_t restart_count_ = 0;
  std::int32_t growth_count_ = 0;
  std::int64_t commits_before_ = 0;  // commit_count at the failure before
  std::optional<Verdict> repeated_;
  std::optional<StopWish> forbidden_by_;
};

}  // namespace muster::launcher
