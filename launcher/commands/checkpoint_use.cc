#include "launcher/commands/checkpoint_use.h"

#include "common/checkpoint/directory.h"

namespace muster::launcher {

std::optional<CheckpointUse> last_use_of(const Options& options) {
  const std::string& directory = options.checkpoint_directory;
  if (directory.empty()) return std::nullopt;
  const auto last = CheckpointDirectory(directory).newest();
  if (!last) return std::nullopt;
  using enum CheckpointUse::Kind;
  const auto alive = is_alive(last->owner);
  const std::string who = owner_of(*last);
  if (!alive)
    return CheckpointUse{kUnknown, fmt::format("{} is taken over from job {} on host {}: "
                                               "if that job still runs, it will stop",
                                               directory, last->job, last->owner.host)};
  if (!*alive)
    return CheckpointUse{kOver, fmt::format("{} was last used by {}, which has ended", directory, who)};
  if (options.take_over)
    return CheckpointUse{
        kTaken, fmt::format("{} is taken over from {}, which is running and will stop", directory, who)};
  return CheckpointUse{kRefused, fmt::format("{} is in use by {}, which is running", directory, who)};
}

}  // namespace muster::launcher
