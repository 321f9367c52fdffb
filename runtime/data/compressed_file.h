// A file that may be compressed, by gzip or zstd, in one piece or several: read from front to end as if it
// were not.
//
// Its first bytes say what it is compressed by; its name does not count. For one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "common/base/error.h"

namespace muster {

class ByteSource;

class CompressedFile {
 public:
  // kInvalidArgument for what zstd has compressed, where Muster was built without it.
  static Expected<CompressedFile> open(const std::string& path);
  CompressedFile(CompressedFile&&) noexcept;
  CompressedFile& operator=(CompressedFile&&) noexcept;
  ~CompressedFile();

  // Fewer than `size` bytes only at the end. kCorrupt names the file that is damaged or, if it is compressed,
  // cut off; checksums of what is compressed have been compared when nothing more comes.
  Expected<std::size_t> read(void* to, std::size_t size);
  // To pass over more than follows is no error.
  Status skip(std::int64_t size);
  // At most so many bytes, by default all that follow. Makes room for what is there or as it comes, whatever
  // a header has promised.
  Expected<std::string> read_text(std::uint64_t most = std::numeric_limits<std::uint64_t>::max());
  // Reads to the end and keeps nothing, so that checksums are compared. Of a plain file nothing is read.
  Status check_rest();

 private:
  CompressedFile(std::unique_ptr<ByteSource> source, std::unique_ptr<char[]> buffer, std::size_t filled);
  // Takes from the buffer; both without reading.
  std::size_t take(char* to, std::size_t size);
  std::size_t drop(std::size_t size);
  Expected<std::size_t> fill();

  std::unique_ptr<ByteSource> source_;
  std::unique_ptr<char[]> buffer_;  // contents from begin_ to end_, which were not asked for yet
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t next_fill_bytes_;
};

}  // namespace muster
