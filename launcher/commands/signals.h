// The signals of a user who runs jobs.
#pragma once

#include "common/base/file.h"

namespace muster::launcher {

// Blocks the signals and reads them as data, so that none is lost. Signals that the caller ignores (nohup)
// stay ignored. INT and QUIT do not: a script's shell ignores both for every program that it starts with `&`,
// but a user who sends one to this launch wants to stop it. torchrun takes both as well.
UniqueFd take_signals();

}  // namespace muster::launcher
