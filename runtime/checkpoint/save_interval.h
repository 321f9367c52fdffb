// When to save, where that is a matter of time: after so many seconds, or after as many as cost the least in
// all, given what a save costs and how often a training fails.
//
// Pure: rank 0 asks it, and tells the others at which step they will hear of it again, so that nobody has to
// ask at each step. Times are passed in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"

namespace muster {

// How often a training fails that has failed so often in this time, and is expected to fail once in
// `expected`: the mean of what a Poisson process with these observations would give.
Seconds mean_time_between_failures(Seconds expected, int failures, Seconds observed);

class SaveInterval {
 public:
  // `fixed`: so long; none: found out, for a training that fails once in this time.
  SaveInterval(std::optional<Seconds> fixed, Seconds between_failures)
      : fixed_(fixed), between_failures_(between_failures) {}

  struct Look {
    bool saves = false;
    std::int64_t next_step = 0;  // at which to look again
  };
  // After this step.
  Look look(std::int64_t step, TimePoint now);

  // A save has held training up so long; it was committed so long after it had begun.
  void saved(TimePoint when, Seconds held_up, Seconds until_committed);

  Seconds interval() const;
  // The formula with its numbers, when it gives another interval than the last that was told, by a quarter.
  std::optional<std::string> explanation();

 private:
  const std::optional<Seconds> fixed_;
  const Seconds between_failures_;
  Seconds held_up_{1};  // until one is measured
  Seconds until_committed_{0};
  std::optional<TimePoint> last_save_;
  std::optional<TimePoint> last_look_;
  std::int64_t step_of_last_look_ = 0;
  std::optional<Seconds> told_;
};

}  // namespace muster
