// What is known of a training, attempt by attempt: how far the ranks are, what has been saved, who was slow,
// how each attempt ended.
//
// Fed with what workers report, and the keeper of it. Decides nothing. Plain values.
#pragma once

#include <vector>

#include "launcher/core/job/attempt_history.h"
#include "launcher/core/job/job_events.h"
#include "launcher/core/job/steps.h"

namespace muster::launcher {

class Chronicle {
 public:
  // An attempt begins, of which this much is known.
  void begin(AttemptHistory attempt);
  // What a rank of it has reported.
  void note(const wire::WorkerReported& reported);
  // A rank of this node has become slower than the others, or is no longer.
  void note(const PaceChanged& change, NodeId node);
  // It ends so; the first verdict counts.
  void end(const Verdict& verdict);

  const Steps& steps() const { return steps_; }
  const std::vector<AttemptHistory>& history() const { return history_; }
  bool empty() const { return history_.empty(); }
  // Of the newest attempt: whether a rank got beyond the step from which it went on, which that was, and
  // whether it has another size than the one before.
  bool stepped() const { return stepped_; }
  std::optional<std::uint64_t> resume_step() const;
  bool has_another_size() const;

  // What a journal keeps of it (journal/state.h).
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
