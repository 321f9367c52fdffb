// Which parameters belong to a part of a model: those whose name it is, or begins with it, up to a dot. "":
// all.
//
// A plain function of names. Whether there is such a part at all is for the caller to say.
#pragma once

#include <string>

namespace muster {

inline bool is_in_part(const std::string& name, const std::string& part) {
  return part.empty() || name == part || name.starts_with(part + ".");
}

}  // namespace muster
