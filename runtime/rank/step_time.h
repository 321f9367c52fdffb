// Where the time of this rank's steps goes: reading data, waiting for other ranks, checkpoints, the user's
// sections; what is left is computing.
//
// Process-wide, as sections are. Who reads or waits says so; of parts inside a part the outer one counts. The
// first step that is counted begins where one before it ended, or where a Checkpointer has restored: what a
// program does before is no step. Costs some 100 ns a part. Safe from any thread, meant for the training
// thread; the class reads no clock.
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
constexpr std::string_view kCheckpointPart = "checkpoint";    // training stands still for one

class StepTime {
 public:
  using Token = std::uint64_t;
  Token begin(std::string_view part, TimePoint now);
  struct Ended {
    std::string part;
    TimePoint since;
  };
  // Ends what has begun inside of it, too. Nothing if the step has ended since: that part was around steps.
  std::optional<Ended> end(Token token, TimePoint now);
  using Parts = std::vector<std::pair<std::string, Duration>>;
  // Of what a part that has ended took in this step these others get theirs, in this order, as far as it
  // goes.
  void divide(std::string_view part, const Parts& others);
  // How long this rank's own work took, computing and reading data; nothing if nobody waited for other ranks,
  // so that it may be any, or somebody still does: an error ended it.
  std::optional<Duration> step_ended(TimePoint now);

  // This step meets the others of a group, by its word; "": the world.
  void meets(std::string_view group);
  // With whom this rank trains: the group that its newest step has met which has met any, "" where that were
  // several. Of a step that meets nobody the one before it tells.
  std::string group() const;

  // When the last step ended, one that is not counted included.
  std::optional<TimePoint> step_began() const;
  // Since when a part of this name lasts.
  std::optional<TimePoint> open_since(std::string_view part) const;
  // Of the steps that have ended; the rank is 0.
  RankSteps total() const;

 private:
  struct Open {
    Token token = 0;
    std::string part;
    TimePoint since;
    Parts before;  // of this step
  };
  static void add(Parts& parts, std::string_view part, Duration time);

  mutable std::mutex mutex_;
  Token last_token_ = 0;
  std::vector<Open> open_;
  std::optional<TimePoint> step_began_;
  std::optional<std::string> met_;  // in this step
  std::string group_;
  Parts step_;
  Parts total_;
  std::int64_t step_count_ = 0;
};

StepTime& step_time();

// Ends a part of step_time() now, and has it in the trace. False if the step has ended since.
bool end_step_part(StepTime::Token token);

// Begins a part of step_time() now, and ends it as it goes.
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
