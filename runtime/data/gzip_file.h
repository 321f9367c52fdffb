// A file that may be compressed by gzip, in one member or several: read from front to end as if it were not.
//
// For one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "common/base/error.h"

struct gzFile_s;

namespace muster {

class GzipFile {
 public:
  static Expected<GzipFile> open(const std::string& path);

  // Fewer than `size` bytes only at the end. kCorrupt names the file that is damaged or, if it is compressed,
  // cut off; the checksum of what is compressed has been compared when nothing more comes.
  Expected<std::size_t> read(void* to, std::size_t size);
  Status skip(std::int64_t size);
  // At most so many bytes, by default all that follow. Makes room as they come, whatever a header has
  // promised.
  Expected<std::string> read_text(std::uint64_t most = std::numeric_limits<std::uint64_t>::max());
  // Reads to the end and keeps nothing, so that the checksum is compared.
  Status check_rest();

 private:
  struct Close {
    void operator()(gzFile_s* file) const;
  };
  GzipFile(std::string path, gzFile_s* file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

}  // namespace muster
