// The version of Muster that this program was built from, such as "0.1.0+12.g0123abcde". cmake/version.cmake
// makes it. Launcher and agents must have the same.
#pragma once

#include <string_view>

namespace muster {

extern const std::string_view kVersion;

}  // namespace muster
