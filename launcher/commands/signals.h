// The signals of a user who runs jobs.
#pragma once

#include "common/base/file.h"

namespace muster::launcher {

// Blocks the signals, and lets the launcher read them as data, so that none is lost. If the caller ignores a
// signal, as nohup does, it stays ignored. INT and QUIT are exceptions: the shell of a script ignores both
// for each program that it starts with `&`. But a user who sends one of them to this launch wants to stop it.
// torchrun takes both as well.
UniqueFd take_signals();

}  // namespace muster::launcher
