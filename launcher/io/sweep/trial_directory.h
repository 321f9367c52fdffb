// Makes the directories of a sweep's trials. A directory such as SWEEP/trials/0007 has the parameters, the
// checkpoints and the runs of one trial.
//
// Blocking. Errors are one line that names the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "launcher/core/sweep/sweep.h"

namespace muster::launcher::sweep {

std::string trial_directory(const std::string& sweep_directory, std::int32_t trial);
// Returns the directory of the trial's checkpoints. `given` is the directory that --checkpoint-dir names. If
// it is empty, the checkpoints are in the trial's directory.
std::string checkpoints_of(const std::string& sweep_directory, std::int32_t trial, const std::string& given);

// Makes the trial's directory and params.json in it, if they are missing or old.
Status make_trial_directory(const std::string& directory, const Point& point);

// Performs the exploit with which the run begins (PBT). `mine` is the checkpoint directory of the trial, and
// `donors` is the checkpoint directory of the trial to take over, the donor. Replaces the checkpoints in
// `mine` by the newest checkpoint in `donors`. Meanwhile the donor may save new checkpoints and remove old
// ones. Links the files of Muster's checkpoints, and copies files of the program's own. If `donors` has no
// checkpoints, `mine` has none after this. After a crash, the same call may come again. If it was completed
// before, this does nothing.
Status take_over_checkpoints(const std::string& mine, const std::string& donors, const StartRun& start);

// Prepares the directory of the trial for this run. Calls make_trial_directory(). If the run begins with an
// exploit, also calls take_over_checkpoints(). After a crash, the same call may be made once more. `given`
// has the same meaning as for checkpoints_of().
Status prepare_trial(const std::string& sweep_directory, const std::string& given, const StartRun& start);

}  // namespace muster::launcher::sweep
