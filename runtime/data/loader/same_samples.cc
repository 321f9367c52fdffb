#include "runtime/data/loader/same_samples.h"

#include <fmt/format.h>
#include <stdexcept>

#include "runtime/rank/training_loop.h"

namespace muster {

std::string text_of_share(int rank, int world_size) {
  return fmt::format("rank {} of {}", rank, world_size);
}

std::string share_in_hand(const void* memory) {
  const TrainingLoop loop = current_loop();
  return !is_in_hand(memory) ? "" : text_of_share(loop.rank, loop.world_size);
}

void require_one_share(std::span<const std::string> shares) {
  const std::string* first = nullptr;
  for (const std::string& each : shares) {
    if (each.empty()) continue;
    if (first == nullptr) first = &each;
    if (each == *first) continue;
    throw std::invalid_argument(fmt::format(
        "pipeline: one stage reads the samples of {}, another those of {}, "
        "so inputs would meet the wrong targets. Make all stages of a pipeline read the same samples: "
        "`DataLoader(dataset, options, /*rank=*/0, /*world_size=*/1)`, "
        "or with replicas `DataLoader(dataset, options, mesh.get_group(\"dp\"))`",
        *first, each));
  }
}

}  // namespace muster
