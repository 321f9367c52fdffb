// The schedules of torch.distributed.pipelining, under the same names, as pure functions.
//
// p ranks, m microbatches, v stages (chunks) a rank. In a loop rank r has the stages r, r + p, r + 2p, ...;
// in a V it has r and 2p - 1 - r, so that the last stage is on the same rank as the first. Sources: GPipe
// (arXiv 1811.06965), 1F1B and interleaved 1F1B (2104.04473), looped breadth-first (2211.05953), zero bubble
// ZB-H1 and its interleaved form, ZBV (2401.10241, 2405.15362), DualPipeV (2412.19437).
#pragma once

#include <optional>
#include <span>

#include "common/pipeline/schedule.h"

namespace muster {

struct ScheduleRequest {
  int ranks = 1;
  int microbatches = 1;
  std::optional<int> chunks;  // per rank; by default what the schedule is made for
};

// "GPipe", "1F1B", "Interleaved1F1B", ...
std::span<const std::string_view> schedule_names();
// Returns the schedule's full name. Ignores case, blanks, - and _, and a leading "Schedule". Accepts ZBV for
// ZBVZeroBubble.
std::optional<std::string_view> find_schedule_name(std::string_view name);

// Returns a schedule that only computes (with_communication() adds the rest). kInvalidArgument: the schedule
// does not exist for these numbers; the message says what would be right.
Expected<Schedule> make_schedule(std::string_view name, const ScheduleRequest& request);

// Adds sends and receives, reductions of gradients, and steps. Places each receive where its sender has just
// sent, so that two ranks agree on the order between them. kInvalidArgument: the schedule cannot be carried
// out.
Expected<Schedule> with_communication(const Schedule& schedule);

}  // namespace muster
