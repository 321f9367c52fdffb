#include "launcher/core/fleet/image_name.h"

namespace muster::launcher {

// A first part with a dot or a colon in it, or localhost, is a registry; a colon behind the last slash begins
// a tag.
ImageName parse_image(std::string_view image) {
  ImageName name{.registry = "docker.io", .repository = std::string(image), .tag = "latest"};
  const std::size_t slash = image.find('/');
  const std::string_view first = image.substr(0, slash == std::string_view::npos ? 0 : slash);
  if (first.find_first_of(".:") != std::string_view::npos || first == "localhost") name.registry = first;
  const std::size_t digest = image.find('@');
  const std::size_t colon = image.rfind(':');
  const std::size_t last_slash = image.rfind('/');
  const bool tagged =
      colon != std::string_view::npos && (last_slash == std::string_view::npos || colon > last_slash);
  const std::size_t end = digest != std::string_view::npos ? digest : tagged ? colon : std::string_view::npos;
  if (end == std::string_view::npos) return name;
  name.repository = image.substr(0, end);
  name.tag = image.substr(end + 1);
  return name;
}

}  // namespace muster::launcher
