// Lists directories and files whose names end in a number, such as attempt_12.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "common/base/text.h"

namespace muster {

// Calls `use(number, path)` for each entry of the directory whose name consists of `prefix` and a number. If
// the directory cannot be read, returns the error.
template <class Number, class Use>
std::error_code for_each_numbered(const std::filesystem::path& directory, std::string_view prefix,
                                  const Use& use) {
  std::error_code error;
  std::filesystem::directory_iterator next(directory, error);
  for (; !error && next != std::filesystem::directory_iterator(); next.increment(error)) {
    const std::string name = next->path().filename();
    if (!name.starts_with(prefix)) continue;
    if (const auto number = parse_number<Number>(std::string_view(name).substr(prefix.size())))
      use(*number, next->path());
  }
  return error;
}

}  // namespace muster
