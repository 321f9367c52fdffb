// Reads the files in a ZIP archive that lies in memory: stored or deflated, with checksums, of any size
// (ZIP64).
//
// The functions take no more memory than the archive can fill, whatever its directory promises. They are safe
// to call from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"

namespace muster {

struct ZipEntry {
  std::string name;
  std::string_view packed;  // in the archive
  std::uint64_t size = 0;   // unpacked
  std::uint32_t checksum = 0;
  bool is_deflated = false;
};

// Gives the files in the order of the archive's directory. kCorrupt says what is damaged or not supported,
// without the archive's name.
Expected<std::vector<ZipEntry>> zip_entries(std::string_view archive);
// Gives the contents of a file, which lie in the archive or in `unpacked`. kCorrupt if the checksum is wrong.
Expected<std::string_view> zip_contents(const ZipEntry& entry, std::string& unpacked);

}  // namespace muster
