// The cost of a sweep before its start: how many trials reach each rung, how many steps that takes, and how long.
//
// Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "launcher/core/sweep/schedule/schedule.h"

namespace muster::launcher::sweep {

struct PreviewFacts {
  Preview preview;
  std::size_t slots = 1;           // trials that run at once
  std::optional<Duration> step{};  // the time of a step
};
// `width`: of the terminal, in characters; 0: nothing is cut.
std::string preview_as_text(const PreviewFacts& facts, std::size_t width);
nlohmann::ordered_json preview_as_json(const PreviewFacts& facts);

}  // namespace muster::launcher::sweep
