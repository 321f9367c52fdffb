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
  // Begins the history of a new attempt. `attempt` contains what is known about it at this time.
  void begin(AttemptHistory attempt);
  // Notes a report of a rank of the newest attempt. If the report commits a checkpoint, returns true.
  bool note(const wire::WorkerReported& reported);
  // Notes that a rank of this node has become slower than the others, or that it no longer is.
  void note(const PaceChanged& change, NodeId node);
  // Notes a stall of the newest attempt. Returns the text about it for the user.
  std::string stalled(std::string what, TimePoint since);
  // Call when the stall that was given to stalled() is over. Returns the stall's text with its duration.
  // Returns "" if there was no stall.
  std::string moved_on(TimePoint now);
  // Call when agents have written a checkpoint of `step` to the disk after the end of the newest attempt.
  // During the attempt this checkpoint was only in memory.
  void saved(std::int64_t step);
  // Notes the verdict with which the newest attempt ends. If the attempt already has one, this does nothing.
  void end(const Verdict& verdict);

  const Steps& steps() const { return steps_; }
  const std::vector<AttemptHistory>& history() const { return history_; }
  bool empty() const { return history_.empty(); }
  // Returns whether a rank of the newest attempt has got beyond the step from which the attempt resumed.
  bool stepped() const { return stepped_; }
  // Returns the step of the checkpoint that was offered to the newest attempt. Returns nullopt if there was
  // none.
  std::optional<std::uint64_t> resume_step() const;
  // Returns whether the newest attempt has another world size than the attempt before it.
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
