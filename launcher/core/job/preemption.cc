#include "launcher/core/job/preemption.h"

#include <algorithm>

#include "common/base/text.h"

namespace muster::launcher {

void Preemption::hello(Rank rank, std::string_view capabilities) {
  const auto words = split(capabilities, ' ');
  if (std::ranges::find(words, "preemption") != words.end()) capable_.insert(rank);
}

TimePoint notice_time(TimePoint began, Duration time_limit, Duration grace) {
  return began + time_limit - std::min(grace, time_limit / 2);
}

}  // namespace muster::launcher
