// Reads the files in a ZIP archive in memory. Supports stored and deflated files and ZIP64,
// and compares checksums.
//
// The functions allocate no more memory than the archive's data can fill, even if its directory promises
// more. Any thread can call them.
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

// Returns the files in the order of the archive's directory. kCorrupt says what is damaged or not supported.
// The message does not name the archive.
Expected<std::vector<ZipEntry>> zip_entries(std::string_view archive);
// Returns the contents of a file. They lie in the archive or, if the file is deflated, in `unpacked`.
// kCorrupt if the file is damaged.
Expected<std::string_view> zip_contents(const ZipEntry& entry, std::string& unpacked);

}  // namespace muster
