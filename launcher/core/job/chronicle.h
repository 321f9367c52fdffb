// What is known of a training, attempt by attempt: how far the ranks are, what has been saved, who was slow,
// how each attempt ended.
//
// Fed with what workers report, and the keeper of it. Says who is slow (stragglers.h); decides nothing else.
// Plain values.
#pragma once

#include <string>
#include <vector>

#include "launcher/core/job/attempt_history.h"
#include "launcher/core/job/crew.h"
#include "launcher/core/job/steps.h"
#include "launcher/core/job/stragglers.h"

namespace muster::launcher {

class Chronicle {
 public:
  // An attempt begins, of which this much is known.
  void begin(AttemptHistory attempt);
  // What a rank of it has reported.
  void note(const wire::WorkerReported& reported);
  // A rank has become slower than the others, or is no longer.
  struct PaceChange {
    Slowness now;
    bool slower = false;
    std::string text() const;  // "is slower than the others: 130 ms a step against 100 ms"
  };
  // After a step. Each change is told once.
  std::vector<PaceChange> watch_pace(const wire::WorkerReported& step, const Crew& crew);
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

 private:
  void note_step(Rank rank, std::int64_t step);
  void note_resume(const wire::WorkerReported& reported);

  Steps steps_;
  Stragglers stragglers_;
  bool stepped_ = false;
  std::vector<AttemptHistory> history_;
};

}  // namespace muster::launcher
