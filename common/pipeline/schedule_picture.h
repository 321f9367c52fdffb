// Draws a schedule's timeline as text, one row per rank: which instruction the rank computes at which time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/pipeline/simulated_schedule.h"

namespace muster {

struct PictureOptions {
  bool color = false;
  // The greatest width of the picture. By default each instruction has room for its name.
  std::optional<std::size_t> columns{};
};

// Returns the picture. It names instructions as text_of() does. If `one_stage_a_rank` is true, the names do
// not have the stage.
std::string schedule_picture(const std::vector<std::vector<TimedInstruction>>& ranks, bool one_stage_a_rank,
                             const PictureOptions& options = {});

}  // namespace muster
