// Finds out whether another launch uses a checkpoint directory. That launch would stop if this one took the
// directory over.
//
// Only on this machine can last_use_of() tell whether the other launch still runs. Writes nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/core/settings/options.h"

namespace muster::launcher {

struct CheckpointUse {
  enum class Kind {
    kOver,     // the user of the directory has ended
    kUnknown,  // the user may run on another machine, or in another container
    kTaken,    // the user runs, and --take-over is given: it will stop
    kRefused,  // the user runs
  } kind = Kind::kOver;
  std::string text;
};
// The last use of the directory in `options`; nothing if there was none.
std::optional<CheckpointUse> last_use_of(const Options& options);

inline constexpr std::string_view kUseAdvice =
    "stop it (`launch cancel`), name another directory, or take it over with --take-over";

}  // namespace muster::launcher
