// Measures where the time of this rank's steps goes: reading data, waiting for other ranks, checkpoints, the
// user's sections; the rest is computing.
//
// Process-wide, as sections are. The code that reads or waits marks its part; of nested parts only the
// outermost counts. The first counted step begins where the previous step ended, or where a Checkpointer
// restored: work before that is not part of a step. A part costs some 100 ns. Safe from any thread, meant for
// the training thread; the class reads no clock.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/step_shares.h"

namespace muster {

constexpr std::string_view kDataPart = "data";                // waiting for a batch, or reading it
constexpr std::string_view kComputePart = "compute";          // the rest
constexpr std::string_view kCommunicatePart = "communicate";  // waiting for other ranks
constexpr std::string_view kCheckpointPart = "checkpoint";    // the training waits for a checkpoint

class StepTime {
 public:
  using Token = std::uint64_t;
  Token begin(std::string_view part, TimePoint now);
  struct Ended {
    std::string part;
    TimePoint since;
  };
  // Ends a part, and the parts that began inside it. Returns empty if the step has ended since the part
  // began.
  std::optional<Ended> end(Token token, TimePoint now);
  using Parts = std::vector<std::pair<std::string, Duration>>;
  // Moves time of an ended part of this step to other parts, in this order, until the part has no time left.
  void divide(std::string_view part, const Parts& others);
  // Returns how long this rank's own work took: computing and reading data. Empty if no part waited for other
  // ranks: any waiting is then hidden in the computing time. Also empty if a waiting part is still open: an
  // error has interrupted it.
  std::optional<Duration> step_ended(TimePoint now);

  // Records that this step communicates within a group, named by its key; "": the world.
  void meets(std::string_view group);
  // Returns the group that this rank trains with: the group of the newest step that communicated, or "" if
  // that step used several groups. Steps without communication do not change the result.
  std::string group() const;

  // Returns when the current step began: at the end of the last step, even if the last step was not counted.
  std::optional<TimePoint> step_began() const;
  // Returns when the open part with this name began; empty if there is none.
  std::optional<TimePoint> open_since(std::string_view part) const;
  // Returns the sums over the completed steps, with rank 0.
  RankSteps total() const;

 private:
  struct Open {
    Token token = 0;
    std::string part;
    TimePoint since;
    Parts before;  // of this step at `since`: end() goes back to them
  };
  static void add(Parts& parts, std::string_view part, Duration time);

  mutable std::mutex mutex_;
  Token last_token_ = 0;
  std::vector<Open> open_;
  std::optional<TimePoint> step_began_;
  std::optional<std::string> met_;  // group of this step
  std::string group_;
  Parts step_;
  Parts total_;
  std::int64_t step_count_ = 0;
};

StepTime& step_time();

// Ends a part of step_time() now, and adds it to the trace. Returns false if the step has ended since.
bool end_step_part(StepTime::Token token);

// Begins a part of step_time() now; its destructor ends it.
class InStepPart {
 public:
  explicit InStepPart(std::string_view part) : token_(step_time().begin(part, Clock::now())) {}
  InStepPart(const InStepPart&) = delete;
  InStepPart& operator=(const InStepPart&) = delete;
  ~InStepPart() { end_step_part(token_); }

 private:
  StepTime::Token token_;
};

}  // namespace muster
