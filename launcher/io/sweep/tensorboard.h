// Writes a sweep as TensorBoard reads it: a run for each trial, with its values over the steps, and its
// parameters for the tab HPARAMS.
//
// Blocking.
#pragma once

#include <span>
#include <string>

#include "common/base/error.h"
#include "launcher/core/sweep/history/history.h"

namespace muster::launcher::sweep {

// Writes DIRECTORY/trial-0007/events.out.tfevents.BEGAN.muster for each trial that has begun, and replaces
// the files of an earlier call. `history`: after these events. `began_unix`: the time 0 of both.
Status write_tensorboard(const std::string& directory, const History& history, std::span<const Event> events,
                         double began_unix);

}  // namespace muster::launcher::sweep
