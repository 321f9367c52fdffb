// Reads a file from beginning to end. The file is plain, or compressed by gzip or zstd. Compressed data can
// consist of several gzip members or zstd frames.
//
// The file's first bytes show how it is compressed; its name does not matter. Only one thread at a time is
// allowed to use a CompressedFile.
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
  // Opens the file. Returns kInvalidArgument if it is compressed by zstd and Muster was built without
  // libzstd.
  static Expected<CompressedFile> open(const std::string& path);
  CompressedFile(CompressedFile&&) noexcept;
  CompressedFile& operator=(CompressedFile&&) noexcept;
  ~CompressedFile();

  // Returns the number of bytes read. It is less than `size` only at the end of the file. At the end, all
  // checksums of compressed data have been compared. If the file is damaged, or if it is compressed and cut
  // off, returns kCorrupt, and the message names the file.
  Expected<std::size_t> read(void* to, std::size_t size);
  // Skips `size` bytes. If fewer bytes follow, skips to the end of the file.
  Status skip(std::int64_t size);
  // Reads at most `most` bytes. By default, it reads all bytes up to the end of the file. It allocates memory
  // only for bytes that exist, even if a header promises more.
  Expected<std::string> read_text(std::uint64_t most = std::numeric_limits<std::uint64_t>::max());
  // Reads a compressed file to its end, so that its checksums are compared. Does nothing for a plain file.
  Status check_rest();

 private:
  CompressedFile(std::unique_ptr<ByteSource> source, std::unique_ptr<char[]> buffer, std::size_t filled);
  // take() copies bytes out of the buffer. drop() discards bytes of the buffer. Neither of them reads the
  // file.
  std::size_t take(char* to, std::size_t size);
  std::size_t drop(std::size_t size);
  Expected<std::size_t> fill();

  std::unique_ptr<ByteSource> source_;
  std::unique_ptr<char[]> buffer_;  // bytes from begin_ to end_ were read, but not yet returned
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t next_fill_bytes_;
};

}  // namespace muster
