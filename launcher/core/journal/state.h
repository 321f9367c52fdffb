// Converts the state of the core to its form in a journal, and back. That form has every field of every part.
// A field has no name there, only a position.
//
// Boost.PFR splits plain structs, so no field can be forgotten. A class lists its fields in fields(), and
// checks them in restored() after reading. States of different versions are incompatible. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include "common/base/error.h"
#include "launcher/core/controller.h"

namespace muster::launcher {

nlohmann::json state_of(const Controller& controller);
// Restores a state that is not trusted. The controller must have been made from the same plan. If the state
// has another version or is impossible, returns kCorrupt. After an error the controller cannot be used.
Status restore(Controller& controller, const nlohmann::json& state);

}  // namespace muster::launcher
