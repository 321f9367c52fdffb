// Says whether a parameter belongs to a part of a model: its name is the name of the part, or begins with the
// name of the part and a dot. All parameters belong to the part "".
//
// The function only compares names. The caller checks whether the model has the part.
#pragma once

#include <string>

namespace muster {

inline bool is_in_part(const std::string& name, const std::string& part) {
  return part.empty() || name == part || name.starts_with(part + ".");
}

}  // namespace muster
