// Reading files of a checkpoint: in whole, into a buffer, past the page cache.
//
// Or as a mapping, of files that lie in memory. Nothing here looks at digests: reader.h does.
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

// Its bytes go away with it. Begins at a page, a large one at a huge page: disks write faster into these.
class Buffer {
 public:
  // Room for so many, of which none are kept; nothing if there is no memory.
  char* with_room(std::uint64_t bytes);

 private:
  struct Free {
    void operator()(char* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<char, Free> bytes_;
  std::uint64_t size_ = 0;
};

// An open file that has the size that the manifest says. `size_bytes`: any, if there is none.
Expected<UniqueFd> open_file(const std::string& path, std::optional<std::uint64_t> size_bytes, int flags = 0);

// `room`: how much may be read over, which a read past the page cache needs at the file's end.
Status read_fully(int fd, char* to, std::uint64_t count, std::uint64_t offset, const std::string& path,
                  std::uint64_t room = 0);

// Where a chunk ends in its file.
std::uint64_t chunk_end(const ManifestFile& file, std::uint64_t chunk);

// A file of which whole chunks are read past the page cache, where its file system can.
class DirectFile {
 public:
  // `file` outlives it.
  static Expected<DirectFile> open(std::string path, const ManifestFile& file);
  // `to` comes from a Buffer with room for direct_bytes().
  Status read_chunk(std::uint64_t chunk, char* to);
  // What the largest chunk needs: reads end at pages.
  static std::uint64_t direct_bytes(const ManifestFile& file);

 private:
  DirectFile(std::string path, const ManifestFile& file, UniqueFd fd, bool is_direct)
      : path_(std::move(path)), file_(file), fd_(std::move(fd)), is_direct_(is_direct) {}

  std::string path_;
  const ManifestFile& file_;
  UniqueFd fd_;
  bool is_direct_;
};

// A file that lies in memory, where it lies. Nobody may shorten it meanwhile.
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
