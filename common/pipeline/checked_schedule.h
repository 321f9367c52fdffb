// Whether a schedule can be carried out, and is a whole training step: found out on paper, before anything
// waits for ever.
#pragma once

#include <optional>

#include "common/pipeline/schedule.h"

namespace muster {

struct ScheduleLimits {
  // How many microbatches' activations a stage's rank may hold at once, over all its stages; nothing: any.
  std::optional<int> activations;
};

// Each stage lies on one rank; does every microbatch's forward once, after that of the stage before, and its
// backward once, whole or in its two parts, after the forward and after the stage behind; no rank waits for
// ever; each receive has its send, in the same order between two ranks; a reduction follows the stage's last
// gradient, and a step the reduction. Sends, receives, reductions and steps are looked at where the schedule
// has any. kInvalidArgument: the first mistake, with rank, place in its list, and instruction.
Status check_schedule(const Schedule& schedule, const ScheduleLimits& limits = {});

}  // namespace muster
