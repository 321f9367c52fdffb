// The flags that only torchrun has: those with an effect here, and whether the others hold what torchrun
// would take. Pure.
#pragma once

#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

void read_torchrun(SettingReader& reader, Options& options);

}  // namespace muster::launcher
