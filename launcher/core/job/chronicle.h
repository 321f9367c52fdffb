// The chronicle of a training, attempt by attempt: the ranks' progress, checkpoints, stragglers, and how each
// attempt ended.
//
// Keeps what the workers report about progress. Decides nothing. Plain values.
#pragma once

#include <vector>

#include "launcher/core/job/attempt_history.h"
#include "launcher/core/job/job_events.h"
#include "launcher/core/job/steps.h"

namespace muster::launcher {

class Chronicle {
 public:
  // Begins the history of a new attempt. `attempt` has what is known about it so far.
  void begin(AttemptHistory attempt);
  // Notes a report of a rank of the newest attempt. Returns whether the report commits a checkpoint.
  bool note(const wire::WorkerReported& reported);
  // Notes that a rank of this node is slower than the others from now on, or that it no longer is.
  void note(const PaceChanged& change, NodeId node);
  // Notes a stall of the newest attempt. Returns its text, for the user.
  std::string stalled(std::string what, TimePoint since);
  // Notes that the stall reported to stalled() is over. Returns its text with its duration, or "" if there
  // was none.
  std::string moved_on(TimePoint now);
  // Notes that `step`, which an ended attempt held in memory, has become a checkpoint.
  void saved(std::int64_t step);
  // Notes the verdict with which the newest attempt ends. Ignores a second verdict.
  void end(const Verdict& verdict);

  const Steps& steps() const { return steps_; }
  const std::vector<AttemptHistory>& history() const { return history_; }
  bool empty() const { return history_.empty(); }
  // Whether a rank of the newest attempt got beyond the step that the attempt resumed from.
  bool stepped() const { return stepped_; }
  // The step of the checkpoint offered to the newest attempt; nullopt: there was none.
  std::optional<std::uint64_t> resume_step() const;
  // Whether the newest attempt has another world size than the one before.
  bool has_another_size() const;

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(steps_, stepped_, history_);
  }

 private:
  void note_step(Rank rank, std::int64_t step);
  void note_resume(const wire::WorkerReported& reported);

  Steps steps_;
  bool stepped_ = false;
  std::vector<AttemptHistory> history_;
};

}  // namespace muster::launcher
