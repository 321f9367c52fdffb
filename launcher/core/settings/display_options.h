// The flags that say how the workers' lines are shown, as far as only the terminal needs to know.
//
// Display options change nothing about the job, its plan or its files, and so are no part of Options. Pure.
#pragma once

#include <optional>

#include "launcher/core/settings/options.h"

namespace muster::launcher {

struct DisplayOptions {
  std::optional<bool> fold;  // show once what several ranks print; without a value, on a terminal
  std::string line_prefix;   // --log-line-prefix-template, or empty
};

Expected<DisplayOptions> make_display_options(const Settings& settings);

}  // namespace muster::launcher
