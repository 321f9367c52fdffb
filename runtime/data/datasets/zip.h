// Reads the files in a ZIP archive that is in memory. The files can be stored or deflated, and the archive
// can be ZIP64. Checksums are compared.
//
// A directory can promise more data than the archive has. The functions never allocate more memory than the
// data of the archive can fill. Any thread can call them.
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

// Returns the files in the archive, in the order of its directory. If something is damaged or not supported,
// returns kCorrupt. The message says what it is. It does not name the archive.
Expected<std::vector<ZipEntry>> zip_entries(std::string_view archive);
// Returns the contents of a file in the archive. If the file is deflated, they are unpacked into `unpacked`.
// Otherwise the result points into the archive. Returns kCorrupt if the file is damaged.
Expected<std::string_view> zip_contents(const ZipEntry& entry, std::string& unpacked);

}  // namespace muster
