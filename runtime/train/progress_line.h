// Decides when to print the line that shows the progress of a training, and makes the text of this line.
//
// On a terminal, the line has a bar, and it is drawn again in the same place. Elsewhere, a new line is
// printed every few seconds and at the end. The caller passes the current time. Only one thread uses a
// ProgressLine.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace muster {

class ProgressLine {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Range {
    std::int64_t first = 0;  // the number of steps done before
    std::int64_t total = 0;  // 0: unknown
  };
  ProgressLine(Range steps, bool terminal, Time now)
      : steps_(steps), terminal_(terminal), started_(now), printed_(now) {}

  bool is_due(std::int64_t step, Time now) const;
  // Returns the text to print. `samples` is the number of samples since the start. It is 0 if this number is
  // not known.
  std::string text(std::int64_t step, std::optional<double> loss, std::int64_t samples, Time now);
  // Returns the text that ends the line. Returns "" if no line has been drawn.
  std::string end() const { return terminal_ && drawn_ ? "\n" : ""; }

 private:
  Range steps_;
  bool terminal_;
  Time started_;
  Time printed_;
  bool drawn_ = false;
};

}  // namespace muster
