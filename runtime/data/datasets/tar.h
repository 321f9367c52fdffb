// Reads the files of a tar archive one after the other. An archive can be plain, or compressed by gzip or
// zstd. The reader supports the format ustar, and the two extensions for long names and large sizes: GNU's
// and that of POSIX (pax). It fills the holes of sparse files with zeros.
//
// - Memory grows with the contents read, not with the sizes that headers promise. Holes take memory, too, but
//   a file can have at most 256 MiB of them.
// - Damage is an error. After an error, the archive is at its end.
// - The reader reads a compressed archive to the end of the file, so that its checksums are compared.
//
// Only one thread at a time is allowed to use a reader.
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

// Says where the stored pieces of a sparse file lie in the whole file.
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
  // Checks whether `path` can be an archive. Fails if it is a URL, a folder, or a file of another kind. It
  // does not fail if the file is missing, because open() reports that.
  static Status check_archive(const std::string& path);

  // Returns the next regular file. Returns nothing at the end. If the contents of the current file have not
  // been read, this function skips them.
  Expected<std::optional<TarEntry>> next();
  // At the end of an archive, tar writes blocks of zeros. When the archive is at its end, this function
  // returns true if these blocks are missing. Then files can be missing, too.
  bool lacks_end() const { return lacks_end_; }
  // Returns the contents of the file that next() has returned. Call it at most once for each file.
  Expected<std::string> contents();

 private:
  struct Header;
  // Has everything that extension headers say about the file that comes after them.
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
  std::int64_t size_ = 0;     // of the contents that follow
  std::int64_t padding_ = 0;  // after the contents
  std::optional<SparseMap> sparse_;
  bool has_begun_ = false;
  bool lacks_end_ = false;
  bool ended_ = false;
};

}  // namespace muster
