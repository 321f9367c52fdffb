// Finds out whether another launch uses a checkpoint directory. The other launch would stop if this launch
// took the directory over. If the other launch was killed, its ranks may still write into the directory; then
// this launch ends them.
//
// If the other launch is on another machine, or in another container, last_use_of() may be unable to tell
// whether that launch still runs. Blocking.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/settings/options.h"

namespace muster::launcher {

struct CheckpointUse {
  enum class Kind {
    kOver,     // the other launch has ended
    kLeft,     // the other launch is gone, and processes of its job still run on this machine
    kUnknown,  // the other launch may still run, on another machine or in another container
    kTaken,    // the other launch runs, but --take-over is given: it will stop
    kRefused,  // the other launch or its job runs, and this launch must not end it
  } kind = Kind::kOver;
  std::string text;
  std::string job{};  // for kLeft
};
// Returns the last use of the checkpoint directory. Returns nothing if it was never used.
std::optional<CheckpointUse> last_use_of(const Options& options);

// Makes sure that no rank of another job on this machine writes into the checkpoint directory. Ends the
// processes of a job whose launcher is gone, and waits until they have ended. An agent whose ranks have ended
// is not found. Returns 0 if this launch can begin. Otherwise
// says why it cannot, and returns the exit code. Adds what the user should know to `notices`. `signals` is a
// signalfd: INT, TERM, HUP or QUIT ends the wait.
int settle_checkpoint_use(const Options& options, int signals, std::vector<std::string>& notices);

inline constexpr std::string_view kUseAdvice =
    "stop it (`launch cancel`), name another directory, or take it over with --take-over";

}  // namespace muster::launcher
