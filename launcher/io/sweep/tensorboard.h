// Writes a sweep in the form that TensorBoard reads. There is a run for each trial. It has the trial's values
// over the steps, and its parameters for the tab HPARAMS.
//
// Blocking.
#pragma once

#include <span>
#include <string>

#include "common/base/error.h"
#include "launcher/core/sweep/history/history.h"

namespace muster::launcher::sweep {

// Writes a file DIRECTORY/trial-0007/events.out.tfevents.BEGAN.muster for each trial that has begun. It
// replaces the files of an earlier call. `history` is the state after all `events`. `began_unix` is the time
// at which the sweep began. The times in `history` and `events` are counted from this moment.
Status write_tensorboard(const std::string& directory, const History& history, std::span<const Event> events,
                         double began_unix);

}  // namespace muster::launcher::sweep
