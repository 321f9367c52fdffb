// When the ranks of a pipeline computed what, as lines of text: a row a rank.
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
  // How wide all of it is; nothing: so wide that the shortest instruction has room for its name.
  std::optional<std::size_t> columns{};
};

// Instructions are named as in a schedule; without their stage where `one_stage_a_rank`.
std::string schedule_picture(const std::vector<std::vector<TimedInstruction>>& ranks, bool one_stage_a_rank,
                             const PictureOptions& options = {});

}  // namespace muster
