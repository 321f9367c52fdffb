// Converts the state of the core to its form in a journal, and back: every field of every part, by position.
//
// Boost.PFR splits plain structs, so no field can be forgotten. A class lists its fields in fields(), and
// checks them in restored() after reading. States of different versions are incompatible. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include "common/base/error.h"
#include "launcher/core/controller.h"

namespace muster::launcher {

nlohmann::json state_of(const Controller& controller);
// Restores an untrusted state into a controller that was made from the same plan. Returns kCorrupt if the
// state has another version, or is impossible. After an error the controller is unusable.
Status restore(Controller& controller, const nlohmann::json& state);

}  // namespace muster::launcher
