// Formats numbers for tables of models.
//
// with_commas() gives 206,922 for 206922. in_mib() gives 2.00 MiB for 2097152.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>
#include <string>

namespace muster {

inline std::string with_commas(std::int64_t number) {
  std::string text = fmt::to_string(number);
  for (std::ptrdiff_t at = std::ssize(text) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

inline std::string in_mib(std::int64_t bytes) {
  return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace muster
