#include "runtime/checkpoint/rank_file_writing.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <deque>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/wire/digest.h"
#include "runtime/rank/uncaught.h"

namespace muster {

namespace {

// Writes a file without the page cache. In the page cache, the file would take memory that training needs,
// and the kernel would later write all of it at once.
//
// Invariants: each write begins at a page boundary, in memory and in the file. When the file system has
// refused a write without the page cache, `direct_` becomes false. Several threads can call write() at the
// same time.
class DirectFile {
 public:
  static Expected<std::unique_ptr<DirectFile>> create(const std::string& path, std::uint64_t size_bytes) {
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
    UniqueFd fd(open(path.c_str(), flags | O_DIRECT, 0644));
    const bool direct = static_cast<bool>(fd);
    if (!fd && errno == EINVAL) fd.reset(open(path.c_str(), flags, 0644));
    if (!fd) return system_failure("cannot create " + path, errno);
    // fallocate() fails if the disk is too full, before anything is written. It also keeps the blocks of the
    // file together.
    if (size_bytes > 0 && fallocate(fd.get(), 0, 0, static_cast<off_t>(size_bytes)) != 0 &&
        errno != EOPNOTSUPP && errno != ENOSYS)
      return system_failure("cannot write " + path, errno);
    return std::unique_ptr<DirectFile>(new DirectFile(path, std::move(fd), size_bytes, direct));
  }

  // This function writes whole pages. So the memory after `bytes` must extend to the end of the last page.
  Status write(std::uint64_t offset, std::span<const std::byte> bytes) {
    std::size_t size = (bytes.size() + kPageBytes - 1) / kPageBytes * kPageBytes;
    const std::byte* from = bytes.data();
    while (size > 0) {
      const bool was_direct = direct_;
      const ssize_t put = pwrite(fd_.get(), from, size, static_cast<off_t>(offset));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0 && errno == EINVAL && was_direct) {  // the file system accepts O_DIRECT, but not this write
        direct_ = false;
        fcntl(fd_.get(), F_SETFL, fcntl(fd_.get(), F_GETFL) & ~O_DIRECT);
        continue;
      }
      if (put < 0) return system_failure("cannot write " + path_, errno);
      from += put;
      offset += static_cast<std::uint64_t>(put);
      size -= static_cast<std::size_t>(put);
    }
    return {};
  }

  Status finish() {
    // The last page was written as a whole. So the file is now cut to its size.
    if (ftruncate(fd_.get(), static_cast<off_t>(size_bytes_)) != 0)
      return system_failure("cannot write " + path_, errno);
    if (fsync(fd_.get()) != 0) return system_failure("cannot sync " + path_, errno);
    return {};
  }

 private:
  static constexpr std::size_t kPageBytes = 4096;
  DirectFile(std::string path, UniqueFd fd, std::uint64_t size_bytes, bool direct)
      : path_(std::move(path)), fd_(std::move(fd)), size_bytes_(size_bytes), direct_(direct) {}
  std::string path_;
  UniqueFd fd_;
  std::uint64_t size_bytes_;
  std::atomic<bool> direct_;
};

// The writes that have begun and not yet ended. The oldest is the first.
//
// Invariants: there are at most `depth_` writes. wait() waits for the oldest one and releases its staging
// memory, so that the training thread can fill it again. The destructor waits for all writes, because the
// disk threads use this object.
class Writes {
 public:
  Writes(DirectFile& file, Staging& staging, Background& disk)
      : file_(file),
        staging_(staging),
        disk_(disk),
        depth_(std::clamp<std::size_t>(staging.capacity() / Staging::kChunkBytes / 2, 1, kMostAtOnce)) {}
  ~Writes() {
    while (!under_way_.empty()) (void)wait();
  }
  Status add(std::uint64_t offset, std::span<const std::byte> bytes) {
    if (under_way_.size() == depth_) {
      if (Status written = wait(); !written) return written;
    }
    auto& write = under_way_.emplace_back(std::make_unique<Write>());
    write->end = offset + bytes.size();
    try {
      write->done = disk_.submit(
          [this, offset, bytes, &result = write->result] { result = file_.write(offset, bytes); });
    } catch (...) {  // no thread for this write
      under_way_.pop_back();
      throw;
    }
    return {};
  }
  Status wait() {
    const auto write = std::move(under_way_.front());
    under_way_.pop_front();
    const Status written = without_throwing([&]() -> Status {
      write->done.get();
      return write->result;
    });
    staging_.release(write->end);
    return written;
  }
  Status wait_for_all() {
    while (!under_way_.empty())
      if (Status written = wait(); !written) return written;
    return {};
  }

 private:
  static constexpr std::size_t kMostAtOnce = 4;
  struct Write {
    std::uint64_t end = 0;
    Status result;
    std::future<void> done;
  };
  DirectFile& file_;
  Staging& staging_;
  Background& disk_;
  const std::size_t depth_;  // at most half of the staging memory; the training thread fills the other half
  std::deque<std::unique_ptr<Write>> under_way_;
};

static_assert(Staging::kChunkBytes == kChunkBytes);

Expected<ManifestFile> write_content(const std::string& path, const std::string& name,
                                     std::uint64_t size_bytes, Staging& staging, Background& disk,
                                     const Inspect& inspect) {
  auto file = DirectFile::create(path, size_bytes);
  if (!file) return std::unexpected(file.error());
  ManifestFile result{.name = name, .size_bytes = size_bytes};
  Writes writes(**file, staging, disk);
  for (std::uint64_t offset = 0; offset < size_bytes;) {
    const auto chunk = staging.wait_for_chunk(offset);
    if (chunk.empty())
      return failure(ErrorCode::kUnavailable, "the training thread stopped copying {}", name);
    if (Status good = inspect(offset, chunk); !good) return std::unexpected(good.error());
    result.chunks.push_back(digest_of({reinterpret_cast<const char*>(chunk.data()), chunk.size()}));
    if (Status added = writes.add(offset, chunk); !added) return std::unexpected(added.error());
    offset += chunk.size();
  }
  if (Status written = writes.wait_for_all(); !written) return std::unexpected(written.error());
  if (Status finished = (*file)->finish(); !finished) return std::unexpected(finished.error());
  return result;
}

}  // namespace

Expected<ManifestFile> write_rank_file(const std::string& directory, const std::string& name,
                                       std::uint64_t size_bytes, Staging& staging, Background& disk,
                                       const Inspect& inspect) {
  const std::string path = directory + "/" + name;
  const std::string temporary = path + ".tmp";
  auto file =
      without_throwing([&] { return write_content(temporary, name, size_bytes, staging, disk, inspect); });
  if (file && rename(temporary.c_str(), path.c_str()) != 0)
    file = system_failure("cannot rename to " + path, errno);
  if (!file) {
    staging.abandon();
    unlink(temporary.c_str());
    return file;
  }
  if (Status synced = sync_directory(directory); !synced) return std::unexpected(synced.error());
  return file;
}

}  // namespace muster
