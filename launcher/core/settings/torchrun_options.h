// Reads the flags that only torchrun has. Some of them have an effect here. For all others, it only checks
// the values. Pure.
#pragma once

#include "launcher/core/settings/setting_reader.h"

namespace muster::launcher {

void read_torchrun(SettingReader& reader, Options& options);

}  // namespace muster::launcher
