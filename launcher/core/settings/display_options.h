// The flags for how the terminal shows the workers' lines.
//
// They change nothing about the job, its plan or its files, so they are not part of Options. Pure.
#pragma once

#include <optional>

#include "launcher/core/settings/options.h"

namespace muster::launcher {

struct DisplayOptions {
  std::optional<bool> fold;  // show a line of several ranks once; empty: only on a terminal
  // The template of each line's prefix (--log-line-prefix-template). "" with --no-prefix. nullopt: the usual
  // prefix.
  std::optional<std::string> line_prefix;
};

Expected<DisplayOptions> make_display_options(const Settings& settings);

}  // namespace muster::launcher
