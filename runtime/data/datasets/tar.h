// The files in a tar archive, one after the other: ustar, GNU's and POSIX' (pax) long names and sizes, plain
// or compressed by gzip or zstd. A sparse file is whole: its holes are zeros.
//
// Takes memory as contents come, whatever a header promises, but for holes, of which a file may have 256 MiB.
// An archive that is damaged is an error, and after one the archive is at its end. What is compressed is
// read to the end of the file, for its checksums. For one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "runtime/data/datasets/compressed_file.h"

namespace muster {

struct TarEntry {
  std::string name;
  std::int64_t size = 0;
};

// Where the pieces that an archive holds of a sparse file belong in that file.
struct SparseMap {
  struct Piece {
    std::int64_t begin = 0;
    std::int64_t size = 0;
  };
  std::vector<Piece> pieces;
  std::int64_t size = 0;  // of the whole file
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
    std::optional<SparseMap> sparse;
    std::optional<std::string> sparse_name;
    bool map_is_in_contents = false;
  };

  TarReader(std::string path, CompressedFile file) : path_(std::move(path)), file_(std::move(file)) {}
  Expected<std::optional<TarEntry>> next_entry();
  Expected<std::optional<Header>> header();
  Status extend(Extension& extension, const Header& header);
  Status parse_records(Extension& extension, const std::string& records) const;
  Status parse_sparse(Extension& extension, std::string_view key, std::string_view value) const;
  Status map_sparse(Extension& extension, Header& header, const std::string& name);
  Status read_gnu_map(const Header& header, const std::string& name);
  Status read_pax_map(SparseMap& sparse, const std::string& name);
  Status check_sparse(const SparseMap& sparse, const std::string& name) const;
  Expected<std::string> read(std::int64_t size);
  Expected<std::string> read_sparse(const SparseMap& sparse);
  Status pass_over();
  std::unexpected<Error> corrupt(const std::string& what) const;

  std::string path_;
  CompressedFile file_;
  std::int64_t size_ = 0;     // of the contents that come next
  std::int64_t padding_ = 0;  // behind them
  std::optional<SparseMap> sparse_;
  bool has_begun_ = false;
  bool lacks_end_ = false;
  bool ended_ = false;
};

}  // namespace muster
