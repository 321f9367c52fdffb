#include "common/base/file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "common/base/check.h"

namespace muster {

namespace {

// Returns a random name for a temporary file next to `path`. A name with the pid would not be unique. A
// killed process may have left a file with that name, because pids are reused. In a container, a process
// often has even the same pid each time.
std::string temporary_beside(const std::string& path) {
  std::uint64_t number = 0;
  CHECK(getrandom(&number, sizeof number, 0) == sizeof number, "getrandom: {}", std::strerror(errno));
  return fmt::format("{}.tmp-{:016x}", path, number);
}

// Returns the same result. If this is an error, its text names `path` and not the temporary file. The reader
// of the error knows only `path`, and the same failure has the same text each time.
Status with_final_name(Status written, const std::string& temporary, const std::string& path) {
  if (written) return written;
  std::string text = written.error().message();
  if (const std::size_t at = text.find(temporary); at != std::string::npos)
    text.replace(at, temporary.size(), path);
  return failure(written.error().code(), "{}", text);
}

// Writes a new file with these bytes and syncs it. If this fails, removes the file.
Status write_new_file(const std::string& path, std::string_view bytes) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd) return system_failure("cannot create " + path, errno);
  Status written = write_all(fd.get(), bytes, path);
  if (written && fsync(fd.get()) != 0) written = system_failure("cannot sync " + path, errno);
  if (!written) unlink(path.c_str());
  return written;
}

// `expected_bytes` is only a guess, because files in /proc and pipes have no size. The first read must have
// room for a whole file of /proc/sys, because a second read of such a file returns nothing.
Expected<std::string> read_all(int fd, const std::string& path, std::uint64_t limit_bytes,
                               std::uint64_t expected_bytes) {
  std::string bytes;
  constexpr std::uint64_t kUnknown = 4096;
  const std::uint64_t guess = expected_bytes == 0 ? kUnknown : expected_bytes;
  bytes.resize(static_cast<std::size_t>(std::min(guess, limit_bytes)) + 1);
  std::size_t used = 0;
  for (;;) {
    const ssize_t got = read(fd, bytes.data() + used, bytes.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure("cannot read " + path, errno);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
    if (used > limit_bytes)
      return failure(ErrorCode::kCorrupt, "cannot read {}: larger than {} bytes", path, limit_bytes);
    if (used == bytes.size()) bytes.resize(bytes.size() * 2 + 4096);
  }
  bytes.resize(used);
  return bytes;
}

}  // namespace

void UniqueFd::reset(int fd) {
  if (fd_ >= 0 && fd_ != fd) close(fd_);
  fd_ = fd;
}

Expected<std::string> read_file(const std::string& path, std::uint64_t limit_bytes) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return system_failure("cannot open " + path, errno);
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) return system_failure("cannot read " + path, errno);
  if (S_ISDIR(status.st_mode)) return system_failure("cannot read " + path, EISDIR);
  return read_all(fd.get(), path, limit_bytes, static_cast<std::uint64_t>(status.st_size));
}

Expected<std::string> read_regular_file(const std::string& path, std::uint64_t limit_bytes) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return system_failure("cannot open " + path, errno);
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) return system_failure("cannot read " + path, errno);
  if (!S_ISREG(status.st_mode))
    return failure(ErrorCode::kCorrupt, "cannot read {}: not a regular file", path);
  return read_all(fd.get(), path, limit_bytes, static_cast<std::uint64_t>(status.st_size));
}

Status write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_failure("cannot write " + path, errno);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

Status sync_directory(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return system_failure("cannot open " + path, errno);
  if (fsync(fd.get()) != 0) return system_failure("cannot sync " + path, errno);
  return {};
}

Status sync_directory_above(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  return sync_directory(parent.empty() ? "." : parent.string());
}

Status replace_file(const std::string& path,
                    const std::function<Status(const std::string& temporary)>& write) {
  const std::string temporary = temporary_beside(path);
  Status written = write(temporary);
  if (written && rename(temporary.c_str(), path.c_str()) != 0)
    written = system_failure("cannot rename to " + path, errno);
  if (!written) unlink(temporary.c_str());
  return with_final_name(std::move(written), temporary, path);
}

Status write_file_durably(const std::string& path, std::string_view bytes) {
  const Status replaced =
      replace_file(path, [bytes](const std::string& temporary) { return write_new_file(temporary, bytes); });
  return replaced ? sync_directory_above(path) : replaced;
}

Status create_file_exclusively(const std::string& path, std::string_view bytes) {
  const std::string temporary = temporary_beside(path);
  if (Status written = write_new_file(temporary, bytes); !written)
    return with_final_name(std::move(written), temporary, path);
  const int error_number = link(temporary.c_str(), path.c_str()) == 0 ? 0 : errno;
  unlink(temporary.c_str());
  if (error_number == EEXIST) return failure(ErrorCode::kFenced, "{} exists already", path);
  if (error_number != 0) return system_failure("cannot create " + path, error_number);
  return sync_directory_above(path);
}

Status make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return system_failure("cannot create directory " + path, error.value());
  return {};
}

Status make_directories_durably(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path whole = std::filesystem::absolute(path, ignored);
  std::size_t missing_count = 0;
  for (auto at = whole; at.has_relative_path() && !std::filesystem::exists(at, ignored);
       at = at.parent_path())
    ++missing_count;
  if (Status made = make_directories(path); !made) return made;
  // The directories that existed before are synced, too, because the user may have made them a moment ago.
  // Their errors are ignored, because not every user can read the upper ones.
  std::size_t count = 0;
  for (auto at = whole; at.has_relative_path(); at = at.parent_path()) {
    if (Status synced = sync_directory_above(at.string()); !synced && count < missing_count) return synced;
    ++count;
  }
  return {};
}

}  // namespace muster
