// Files as Muster needs them: an owned descriptor, whole-file reads, and writes that survive a crash.
//
// Functions block; call them where blocking is allowed. Errors name the path. Nothing here deletes a tree.
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

// Reads the whole file. kCorrupt if it is larger than limit_bytes.
Expected<std::string> read_file(const std::string& path, std::uint64_t limit_bytes);
// Does what read_file() does, but never waits: kCorrupt if `path` is not a regular file, for example a pipe.
Expected<std::string> read_regular_file(const std::string& path, std::uint64_t limit_bytes);

// Writes all bytes to fd, also after partial writes and interruptions. `path` is for the message.
Status write_all(int fd, std::string_view bytes, const std::string& path);

Status sync_directory(const std::string& path);
// Syncs the directory that contains `path`.
Status sync_directory_above(const std::string& path);

// `write` makes a file under a temporary name next to `path`; if it succeeds, that file replaces `path`.
// After a failure everything is as it was. Syncs nothing.
Status replace_file(const std::string& path,
                    const std::function<Status(const std::string& temporary)>& write);
// Writes a temporary file next to `path`, syncs that file, renames it to `path`, and syncs the directory.
// After a crash at any point, the file has the old content or the new, never a mix.
Status write_file_durably(const std::string& path, std::string_view bytes);

// Creates the file with all of `bytes` and syncs it and its directory. kFenced if the file already exists. No
// reader sees it half written: it is written under another name and then linked.
Status create_file_exclusively(const std::string& path, std::string_view bytes);

// Creates the directory and any missing parents.
Status make_directories(const std::string& path);
// Does what make_directories() does, and syncs: when it returns, the disk has the entries of the created
// directories, and the entries of all parent directories that this user may read.
Status make_directories_durably(const std::string& path);

}  // namespace muster
