// The name of a container's image, taken apart as Docker does it. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::launcher {

struct ImageName {
  std::string registry;    // "docker.io", "localhost:5000"
  std::string repository;  // as a pull names it, with the registry if it was given
  std::string tag;         // "latest", or "sha256:..." of a digest
};
ImageName parse_image(std::string_view image);

}  // namespace muster::launcher
