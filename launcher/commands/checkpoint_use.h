// Whether a checkpoint directory is another launch's, which would stop if this one took it over.
//
// Whether that one still runs can be known where it runs on this machine. Reads, and writes nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/core/settings/options.h"

namespace muster::launcher {

struct CheckpointUse {
  enum class Kind {
    kOver,     // by a process that has ended
    kUnknown,  // by one that may run where this process cannot look
    kTaken,    // by one that runs, and is to be stopped
    kRefused,  // by one that runs
  } kind = Kind::kOver;
  std::string text;
};
// The last use of the directory in `options`; nothing if there was none.
std::optional<CheckpointUse> last_use_of(const Options& options);

inline constexpr std::string_view kUseAdvice =
    "stop it (`launch cancel`), name another directory, or take it over with --take-over";

}  // namespace muster::launcher
