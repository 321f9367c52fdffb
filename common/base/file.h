// Helpers for files: an owned descriptor, reads of whole files, and writes that survive a crash.
//
// The functions block. Errors name the path.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/error.h"

namespace muster {

// Owns one file descriptor and closes it.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

// Reads the whole file. Returns kCorrupt if it is larger than `limit_bytes`.
Expected<std::string> read_file(const std::string& path, std::uint64_t limit_bytes);
// Does the same as read_file(), but returns kCorrupt if `path` is not a regular file. For example, a read
// from a pipe would block.
Expected<std::string> read_regular_file(const std::string& path, std::uint64_t limit_bytes);

// Writes all bytes to `fd`. If a write is interrupted or writes only some of the bytes, goes on with the
// rest. `path` is for the message of an error.
Status write_all(int fd, std::string_view bytes, const std::string& path);

Status sync_directory(const std::string& path);
// Syncs the directory that contains `path`.
Status sync_directory_above(const std::string& path);

// Calls `write`, which makes a file with a temporary name next to `path`. If this succeeds, the new file
// replaces `path`. If it fails, the new file is removed. Syncs nothing.
Status replace_file(const std::string& path,
                    const std::function<Status(const std::string& temporary)>& write);
// Writes a temporary file next to `path`, syncs that file, renames it to `path`, and syncs the directory.
// After a crash at any point, the file has the old content or the new, never a mix.
Status write_file_durably(const std::string& path, std::string_view bytes);

// Creates a file that contains all of `bytes`. Syncs the file and its directory. Returns kFenced if the file
// already exists. The file is written with another name and then linked, so no reader sees a half-written
// file.
Status create_file_exclusively(const std::string& path, std::string_view bytes);

// Creates the directory and any missing parents.
Status make_directories(const std::string& path);
// Does the same as make_directories(). Also syncs the directories that it has made, and all parent
// directories that this user can read.
Status make_directories_durably(const std::string& path);

}  // namespace muster
