// Makes the schedules of torch.distributed.pipelining, under the same names.
//
// There are p ranks, m microbatches, and v stages (chunks) per rank. In a looped schedule, rank r has the
// stages r, r + p, r + 2p, and so on. In a V-shaped schedule (ZBV, DualPipeV), rank r has the stages r and
// `2p - 1 - r`, so rank 0 has the first and the last stage. Sources: GPipe (arXiv 1811.06965), 1F1B and
// interleaved 1F1B (2104.04473), looped breadth-first (2211.05953), zero bubble ZB-H1 and its interleaved
// form, ZBV (2401.10241, 2405.15362), DualPipeV (2412.19437).
#pragma once

#include <optional>
#include <span>

#include "common/pipeline/schedule.h"

namespace muster {

struct ScheduleRequest {
  int ranks = 1;
  int microbatches = 1;
  std::optional<int> chunks;  // stages per rank; by default the schedule's usual number
};

// Returns "GPipe", "1F1B", "Interleaved1F1B" and so on.
std::span<const std::string_view> schedule_names();
// Returns the full name of a schedule, or nothing if there is no such schedule. `name` can have upper or
// lower case, blanks, '-' and '_', and it can begin with "Schedule". ZBV is a short name for ZBVZeroBubble.
std::optional<std::string_view> find_schedule_name(std::string_view name);

// Returns a schedule that contains only computing; with_communication() adds the other instructions. Returns
// kInvalidArgument if this schedule does not exist for these numbers. The message says which numbers are
// possible.
Expected<Schedule> make_schedule(std::string_view name, const ScheduleRequest& request);

// Adds sends and receives, reductions of gradients, and steps. A send and its receive are added at the same
// time. So two ranks always send and receive in the same order. Returns kInvalidArgument if a rank would wait
// forever.
Expected<Schedule> with_communication(const Schedule& schedule);

}  // namespace muster
