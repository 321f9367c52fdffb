// Writes files like np.save() does, for tests of their readers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// `descr` is the header's text, in quotes, and `shape` is in parentheses. The header's length has two bytes
// in version 1, and four in version 2.
inline std::string npy_file(const std::string& descr, const std::string& shape, const std::string& data,
                            bool fortran_order = false, char version = 1) {
  std::string header = "{'descr': " + descr + ", 'fortran_order': " + (fortran_order ? "True" : "False") +
                       ", 'shape': " + shape + ", }";
  const std::size_t length_bytes = version == 1 ? 2 : 4, before = 8 + length_bytes;
  while ((before + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  const auto length = static_cast<std::uint32_t>(header.size());
  return std::string("\x93NUMPY") + version + '\0' +
         std::string(reinterpret_cast<const char*>(&length), length_bytes) + header + data;
}

template <class Number>
std::string bytes_of_numbers(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

}  // namespace muster
