// The state of the core as a journal keeps it, and back: every field of every part, by its place.
//
// Plain structs are taken apart by Boost.PFR, so that none of their fields can be forgotten; a class lists
// its fields in fields(). The state of one version means nothing to another. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include "launcher/core/controller.h"

namespace muster::launcher {

nlohmann::json state_of(const Controller& controller);
// Into a controller that was made from the same plan. std::exception if it is not of this version.
void restore(Controller& controller, const nlohmann::json& state);

}  // namespace muster::launcher
