// Reads a file from front to end, whether it is plain or compressed by gzip or zstd, in one piece or several.
//
// The file's first bytes say what it is compressed by; its name does not count. Only one thread at a time may
// read the file.
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
  // kInvalidArgument if the file is compressed by zstd and Muster was built without libzstd.
  static Expected<CompressedFile> open(const std::string& path);
  CompressedFile(CompressedFile&&) noexcept;
  CompressedFile& operator=(CompressedFile&&) noexcept;
  ~CompressedFile();

  // Gives fewer than `size` bytes only at the end. kCorrupt names a file that is damaged, or compressed and
  // cut off. By the time that a read gives fewer bytes, all checksums of compressed data have been compared.
  Expected<std::size_t> read(void* to, std::size_t size);
  // Skipping more bytes than follow is not an error.
  Status skip(std::int64_t size);
  // Reads at most `most` bytes, by default all that follow. Takes memory for the bytes that there are,
  // whatever a header has promised.
  Expected<std::string> read_text(std::uint64_t most = std::numeric_limits<std::uint64_t>::max());
  // Reads a compressed file to its end, so that its checksums are compared. Does nothing for a plain file.
  Status check_rest();

 private:
  CompressedFile(std::unique_ptr<ByteSource> source, std::unique_ptr<char[]> buffer, std::size_t filled);
  // take() copies bytes out of the buffer and drop() discards them; neither reads the file.
  std::size_t take(char* to, std::size_t size);
  std::size_t drop(std::size_t size);
  Expected<std::size_t> fill();

  std::unique_ptr<ByteSource> source_;
  std::unique_ptr<char[]> buffer_;  // bytes from begin_ to end_ were read, and not yet asked for
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t next_fill_bytes_;
};

}  // namespace muster
