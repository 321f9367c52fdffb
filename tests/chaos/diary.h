// The log of a chaos training's rank, and the moments at which it stops for a fault. The plain worker and the
// one with LibTorch share it.
//
// Arguments: DIRECTORY STEPS SAVE_EVERY STEP_MS [MOMENT...]. A MOMENT is RANK:STEP:WHERE:WHAT: at that step
// (or the first one after it) that rank writes DIRECTORY/moment.I and waits for DIRECTORY/go.I. Each moment
// happens once, in a later attempt than the moment before it. WHERE is start, step or save; WHAT is wait,
// exit=CODE, memory or flood.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/ids.h"
#include "common/base/text.h"

namespace muster::chaos {

// The value of an environment variable that the agent sets.
std::string variable(const char* name);

template <class Number>
Number number(std::string_view text) {
  const auto value = parse_number<Number>(text);
  CHECK(value.has_value(), "{} is not a number", text);
  return *value;
}

class Diary {
 public:
  explicit Diary(const std::vector<std::string>& words);

  std::uint64_t steps() const { return steps_; }
  std::uint64_t save_every() const { return save_every_; }
  int step_ms() const { return step_ms_; }
  int rank() const { return rank_; }
  Attempt attempt() const { return attempt_; }

  // Writes a line: what, a number, the time, and more. Uses one write(), so that a killed rank leaves whole
  // lines.
  void note(std::string_view what, std::uint64_t number, const std::string& more = "") const;
  void moment(std::string_view where, std::uint64_t step) const;

 private:
  struct Moment {
    int rank = 0;
    std::uint64_t step = 0;
    std::string where;
    std::string what;
  };
  bool marked_by_earlier_attempt(std::size_t moment) const;
  void let_be_hit(std::size_t index) const;

  std::string directory_;
  std::uint64_t steps_, save_every_;
  int step_ms_;
  std::vector<Moment> moments_;
  std::size_t armed_count_ = 1;  // the number of moments that may happen in this attempt
  int rank_ = number<int>(variable("RANK"));
  Attempt attempt_{number<std::uint64_t>(variable("MUSTER_ATTEMPT"))};
  UniqueFd ledger_;
};

}  // namespace muster::chaos
