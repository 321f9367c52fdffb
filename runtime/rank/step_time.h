// Measures where the time of this rank's steps goes. The parts are reading data, waiting for other ranks,
// checkpoints, and the program's sections. All other time is computing.
//
// There is one StepTime per process, as for sections. The code that reads or waits marks its part. If a part
// is inside another part, only the outer one counts. The first counted step begins at the end of the previous
// step, or at the end of a Checkpointer's restore(). Work before that is not part of a step. A part costs
// some 100 ns. Any thread may call the functions, but they are meant for the training thread. The class
// itself reads no clock: callers pass the time.
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
  // Ends a part, and the parts that began inside it. If the step has ended since the part began, returns
  // nothing.
  std::optional<Ended> end(Token token, TimePoint now);
  using Parts = std::vector<std::pair<std::string, Duration>>;
  // Takes time from `part`, which has ended in this step, and adds it to the parts in `others`, in this
  // order. Stops when `part` has no time left.
  void divide(std::string_view part, const Parts& others);
  // Ends the step. Returns the time of this rank's own work in the step, that is, computing and reading data.
  // Returns nothing if no part waited for other ranks, because any waiting is then part of the computing
  // time. Also returns nothing if a waiting part is still open, because an error has interrupted it.
  std::optional<Duration> step_ended(TimePoint now);

  // Records that this step communicates within a group. `group` is the group's key; it is "" for the world.
  void meets(std::string_view group);
  // Returns the group that this rank trains with. This is the group of the newest step that communicated. If
  // that step used several groups, returns "". Steps without communication do not change the result.
  std::string group() const;

  // Returns the time at which the current step began. That is the end of the last step, even if the last step
  // was not counted.
  std::optional<TimePoint> step_began() const;
  // Returns the time at which the open part with this name began. Returns nothing if no such part is open.
  std::optional<TimePoint> open_since(std::string_view part) const;
  // Returns the sums over the completed steps. The member `rank` of the result is 0.
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

// Ends a part of step_time() now, and adds it to the trace. Returns false if the step has ended since the
// part began.
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
