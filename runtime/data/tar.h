// The files in a tar archive, one after the other: ustar, GNU's and POSIX' (pax) long names and sizes, plain
// or compressed by gzip.
//
// Reads no more than it is asked for, and takes memory as contents come, whatever a header promises. An
// archive that is damaged is an error, and after one the archive is at its end. What gzip has compressed is
// read to the end of the file, for its checksums. For one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "runtime/data/gzip_file.h"

namespace muster {

struct TarEntry {
  std::string name;
  std::int64_t size = 0;
};

class TarReader {
 public:
  static Expected<TarReader> open(const std::string& path);
  // Whether it is plainly something else: an address, a folder, a file of another kind. That it is missing is
  // left to open().
  static Status check_archive(const std::string& path);

  // The next regular file; nothing at the end. Contents that were not asked for are passed over.
  Expected<std::optional<TarEntry>> next();
  // At the end: it came without the blocks of zeros that tar writes last, so that more may be missing.
  bool lacks_end() const { return lacks_end_; }
  // Of the file that next() has given; once.
  Expected<std::string> contents();

 private:
  struct Header;
  // What a header says of the one after it.
  struct Extension {
    std::optional<std::string> name;
    std::optional<std::int64_t> size;
  };

  TarReader(std::string path, GzipFile file) : path_(std::move(path)), file_(std::move(file)) {}
  Expected<std::optional<TarEntry>> next_entry();
  Expected<std::optional<Header>> header();
  Status extend(Extension& extension, const Header& header);
  Status parse_records(Extension& extension, const std::string& records) const;
  Expected<std::string> read(std::int64_t size);
  Status pass_over();
  std::unexpected<Error> corrupt(const std::string& what) const;

  std::string path_;
  GzipFile file_;
  std::int64_t size_ = 0;     // of the contents that come next
  std::int64_t padding_ = 0;  // behind them
  bool has_begun_ = false;
  bool lacks_end_ = false;
  bool ended_ = false;
};

}  // namespace muster
