// Estimates the cost of a sweep before it starts: how many trials reach each rung, how many steps they take,
// and how much time.
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
// `width` is the width of the terminal in characters. If it is 0, nothing is cut.
std::string preview_as_text(const PreviewFacts& facts, std::size_t width);
nlohmann::ordered_json preview_as_json(const PreviewFacts& facts);

}  // namespace muster::launcher::sweep
