#include "common/checkpoint/direct_file.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster {

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHugePage = 2 << 20;

}  // namespace

char* Buffer::with_room(std::uint64_t bytes) {
  if (bytes <= size_) return bytes_.get();
  const std::uint64_t page = bytes < kHugePage ? kPage : kHugePage;
  size_ = (bytes + page - 1) / page * page;
  bytes_.reset(static_cast<char*>(std::aligned_alloc(page, size_)));
  if (bytes_ == nullptr) size_ = 0;
  if (page == kHugePage && size_ > 0) madvise(bytes_.get(), size_, MADV_HUGEPAGE);
  return bytes_.get();
}

Expected<UniqueFd> open_file(const std::string& path, std::optional<std::uint64_t> size_bytes, int flags) {
  // With O_NONBLOCK, open() does not wait if the path is that of a pipe.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags));
  if (!fd && flags != 0 && errno == EINVAL) return open_file(path, size_bytes);
  struct stat status{};
  if (!fd || fstat(fd.get(), &status) != 0) return system_failure("cannot open " + path, errno);
  if (!S_ISREG(status.st_mode))
    return failure(ErrorCode::kCorrupt, "cannot use {}: it is not a regular file", path);
  if (size_bytes && static_cast<std::uint64_t>(status.st_size) != *size_bytes)
    return failure(ErrorCode::kCorrupt, "cannot use {}: it has {} bytes, the manifest says {}", path,
                   status.st_size, *size_bytes);
  return fd;
}

Status read_fully(int fd, char* to, std::uint64_t count, std::uint64_t offset, const std::string& path,
                  std::uint64_t room) {
  for (std::uint64_t done = 0; done < count;) {
    const ssize_t got = pread(fd, to + done, std::max(count, room) - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure("cannot read " + path, errno);
    if (got == 0)
      return failure(ErrorCode::kCorrupt, "cannot use {}: it became shorter while it was read", path);
    done += static_cast<std::uint64_t>(got);
  }
  return {};
}

std::uint64_t chunk_end(const ManifestFile& file, std::uint64_t chunk) {
  return std::min((chunk + 1) * file.chunk_bytes, file.size_bytes);
}

std::uint64_t DirectFile::direct_bytes(const ManifestFile& file) {
  return std::min(file.chunk_bytes, file.size_bytes + kPage);
}

Expected<DirectFile> DirectFile::open(std::string path, const ManifestFile& file) {
  const bool whole_pages = file.chunk_bytes % kPage == 0;
  auto fd = open_file(path, file.size_bytes, whole_pages ? O_DIRECT : 0);
  if (!fd) return std::unexpected(fd.error());
  return DirectFile(std::move(path), file, *std::move(fd), whole_pages);
}

Status DirectFile::read_chunk(std::uint64_t chunk, char* to) {
  const std::uint64_t at = chunk * file_.chunk_bytes;
  const std::uint64_t size = chunk_end(file_, chunk) - at;
  const std::uint64_t room = is_direct_ ? (size + kPage - 1) / kPage * kPage : 0;
  Status read = read_fully(fd_.get(), to, size, at, path_, room);
  if (read || !is_direct_) return read;
  is_direct_ = false;  // some file systems allow O_DIRECT for open, but not for reads
  auto fd = open_file(path_, file_.size_bytes);
  if (!fd) return std::unexpected(fd.error());
  fd_ = *std::move(fd);
  return read_fully(fd_.get(), to, size, at, path_);
}

// Maps the file at an address that is a multiple of the size of a huge page. At any other address, the kernel
// would map the file's huge pages as small ones.
Expected<FileMapping> FileMapping::of(const std::string& path, std::uint64_t size_bytes) {
  const auto fd = open_file(path, size_bytes);
  if (!fd) return std::unexpected(fd.error());
  const std::uint64_t size = size_bytes + kHugePage;
  void* const place = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return system_failure("cannot map " + path, errno);
  FileMapping mapping({static_cast<std::byte*>(place), size}, nullptr);
  const std::uint64_t before = kHugePage - reinterpret_cast<std::uintptr_t>(place) % kHugePage;
  void* const bytes = static_cast<std::byte*>(place) + before % kHugePage;
  if (mmap(bytes, size_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd->get(), 0) == MAP_FAILED)
    return system_failure("cannot map " + path, errno);
  mapping.bytes_ = static_cast<const std::byte*>(bytes);
  return mapping;
}

FileMapping::FileMapping(FileMapping&& other) noexcept
    : reserved_(std::exchange(other.reserved_, {})), bytes_(other.bytes_) {}

FileMapping::~FileMapping() {
  if (!reserved_.empty()) munmap(reserved_.data(), reserved_.size());
}

}  // namespace muster
