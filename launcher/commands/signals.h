// The signals of a user who runs jobs.
#pragma once

#include "common/base/file.h"

namespace muster::launcher {

// Blocks the signals and reads them as data, so that none is lost. Signals that the caller ignores (nohup)
// stay ignored, except INT and QUIT: a script's shell ignores these for every program that it starts with
// `&`, and whoever sends one to this launch means to stop it. torchrun takes them as well.
UniqueFd take_signals();

}  // namespace muster::launcher
