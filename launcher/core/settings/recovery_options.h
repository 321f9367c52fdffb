// The flags that say how a job deals with failures and with the end of its time: nodes and spare nodes,
// restarts, preemption, time limit. Pure.
#pragma once

#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

void read_recovery(SettingReader& reader, Options& options);

}  // namespace muster::launcher
