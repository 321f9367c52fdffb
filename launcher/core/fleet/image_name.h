// Splits the name of a container image as Docker does. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::launcher {

struct ImageName {
  std::string registry;    // "docker.io", "localhost:5000"
  std::string repository;  // the name for a pull, with the registry if it was given
  std::string tag;         // "latest", or a digest, "sha256:..."
};
ImageName parse_image(std::string_view image);

}  // namespace muster::launcher
