// Decides when to print the line that shows the progress of a training, and makes its text.
//
// On a terminal, the line is redrawn in place, with a bar. Elsewhere a new line is due every few seconds and
// at the end. The caller passes the time. Only one thread uses a ProgressLine.
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
  // Returns the text to print. `samples` is the number of samples since the start; 0: unknown.
  std::string text(std::int64_t step, std::optional<double> loss, std::int64_t samples, Time now);
  // Returns the text that ends the line; "" if nothing has been drawn.
  std::string end() const { return terminal_ && drawn_ ? "\n" : ""; }

 private:
  Range steps_;
  bool terminal_;
  Time started_;
  Time printed_;
  bool drawn_ = false;
};

}  // namespace muster
