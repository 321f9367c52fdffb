// The flags for failures and for the end of a job's time: nodes and spare nodes, restarts, preemption, time
// limit. Pure.
#pragma once

#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

void read_recovery(SettingReader& reader, Options& options);

}  // namespace muster::launcher
