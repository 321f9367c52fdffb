// Finds out whether another launch uses a checkpoint directory. The other launch would stop if this launch
// took the directory over.
//
// If the other launch is on another machine, or in another container, last_use_of() may be unable to tell
// whether that launch still runs. Writes nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/core/settings/options.h"

namespace muster::launcher {

struct CheckpointUse {
  enum class Kind {
    kOver,     // the other launch has ended
    kUnknown,  // the other launch may still run, on another machine or in another container
    kTaken,    // the other launch runs, but --take-over is given: it will stop
    kRefused,  // the other launch runs
  } kind = Kind::kOver;
  std::string text;
};
// Returns the last use of the checkpoint directory. Returns nothing if it was never used.
std::optional<CheckpointUse> last_use_of(const Options& options);

inline constexpr std::string_view kUseAdvice =
    "stop it (`launch cancel`), name another directory, or take it over with --take-over";

}  // namespace muster::launcher
