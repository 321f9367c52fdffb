// Draws a schedule's timeline as text, one row per rank: which instruction the rank computes at which time.
//
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/pipeline/simulated_schedule.h"

namespace muster {

struct PictureOptions {
  bool color = false;
  // The width of the picture; by default wide enough for the shortest instruction's name.
  std::optional<std::size_t> columns{};
};

// Instructions have the names of the schedule, without the stage if `one_stage_a_rank`.
std::string schedule_picture(const std::vector<std::vector<TimedInstruction>>& ranks, bool one_stage_a_rank,
                             const PictureOptions& options = {});

}  // namespace muster
