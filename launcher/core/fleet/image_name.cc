#include "launcher/core/fleet/image_name.h"

namespace muster::launcher {

// Reads the name of an image. Its first part is a registry if it contains a dot or a colon, or if it is
// localhost. A colon after the last slash begins a tag. A digest takes the place of the tag.
ImageName parse_image(std::string_view image) {
  ImageName name{.registry = "docker.io", .repository = std::string(image), .tag = "latest"};
  const std::size_t slash = image.find('/');
  const std::string_view first = image.substr(0, slash == std::string_view::npos ? 0 : slash);
  if (first.find_first_of(".:") != std::string_view::npos || first == "localhost") name.registry = first;
  const std::size_t digest = image.find('@');
  const std::string_view without_digest = image.substr(0, digest);
  const std::size_t colon = without_digest.rfind(':');
  const bool tagged =
      colon != std::string_view::npos && without_digest.find('/', colon) == std::string_view::npos;
  name.repository = without_digest.substr(0, tagged ? colon : std::string_view::npos);
  if (digest != std::string_view::npos)
    name.tag = image.substr(digest + 1);
  else if (tagged)
    name.tag = image.substr(colon + 1);
  return name;
}

}  // namespace muster::launcher
