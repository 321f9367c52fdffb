// Reads files of a checkpoint into a buffer, bypassing the page cache, or maps files that are in memory.
//
// Nothing here checks digests: reader.h does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/checkpoint/manifest.h"

namespace muster {

// A buffer that starts at a page boundary. A buffer of 2 MiB or more starts at the boundary of a huge page,
// because disks write faster into huge pages.
class Buffer {
 public:
  // Returns a buffer of at least `bytes` bytes. The earlier content is lost. Returns null if there is not
  // enough memory.
  char* with_room(std::uint64_t bytes);

 private:
  struct Free {
    void operator()(char* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<char, Free> bytes_;
  std::uint64_t size_ = 0;
};

// Opens a file for reading. Returns kCorrupt if it is not a regular file. If `size_bytes` is given, also
// returns kCorrupt if the file has another size.
Expected<UniqueFd> open_file(const std::string& path, std::optional<std::uint64_t> size_bytes, int flags = 0);

// Reads `count` bytes into `to`. A read that bypasses the page cache ends at a page boundary, and may read
// more than `count` bytes. For such a read, `room` is the number of bytes that fit at `to`.
Status read_fully(int fd, char* to, std::uint64_t count, std::uint64_t offset, const std::string& path,
                  std::uint64_t room = 0);

// Returns the offset at which the chunk ends in its file.
std::uint64_t chunk_end(const ManifestFile& file, std::uint64_t chunk);

// A file from which whole chunks are read. If the file system supports it, the reads bypass the page cache.
class DirectFile {
 public:
  // `file` must outlive the result.
  static Expected<DirectFile> open(std::string path, const ManifestFile& file);
  // Reads a chunk to `to`. `to` must be memory of a Buffer that has room for direct_bytes().
  Status read_chunk(std::uint64_t chunk, char* to);
  // Returns how much room every chunk needs. It can be more than the chunk, because reads end at page
  // boundaries.
  static std::uint64_t direct_bytes(const ManifestFile& file);

 private:
  DirectFile(std::string path, const ManifestFile& file, UniqueFd fd, bool is_direct)
      : path_(std::move(path)), file_(file), fd_(std::move(fd)), is_direct_(is_direct) {}

  std::string path_;
  const ManifestFile& file_;
  UniqueFd fd_;
  bool is_direct_;
};

// Maps a file of a file system that is in memory (tmpfs). While the file is mapped, no process may make it
// shorter.
class FileMapping {
 public:
  static Expected<FileMapping> of(const std::string& path, std::uint64_t size_bytes);
  FileMapping(FileMapping&& other) noexcept;
  FileMapping& operator=(FileMapping&&) = delete;
  ~FileMapping();
  const std::byte* bytes() const { return bytes_; }

 private:
  FileMapping(std::span<std::byte> reserved, const std::byte* bytes) : reserved_(reserved), bytes_(bytes) {}
  std::span<std::byte> reserved_;
  const std::byte* bytes_;
};

}  // namespace muster
