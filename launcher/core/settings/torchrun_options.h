// The flags that only torchrun has: reads those that have an effect here, and checks the values of the
// others. Pure.
#pragma once

#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

void read_torchrun(SettingReader& reader, Options& options);

}  // namespace muster::launcher
