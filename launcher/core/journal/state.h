// The state of the core as a journal keeps it, and back: every field of every part, by its place.
//
// Plain structs are taken apart by Boost.PFR, so that none of their fields can be forgotten; a class lists
// its fields in fields(), and says in restored() whether those that were read can be its own. The state of
// one version means nothing to another. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include "common/base/error.h"
#include "launcher/core/controller.h"

namespace muster::launcher {

nlohmann::json state_of(const Controller& controller);
// Into a controller that was made from the same plan, and is of no use after an error. kCorrupt if the state
// is of another version, or none that a controller can have: it may be anybody's.
Status restore(Controller& controller, const nlohmann::json& state);

}  // namespace muster::launcher
