// A log file and its older parts: NAME.log is being written, NAME.1.log, NAME.2.log and so on hold what was
// written before, the oldest first.
//
// Files that share a budget never use more bytes than it allows. A file is rotated when it holds an eighth of
// the budget, at the end of a line if there is one. To make room the oldest parts of all files are removed;
// but the newest part of each file is only emptied, so that readers see that something is missing. Without a
// budget there is one file without a limit. Parts are never overwritten. Functions block as files do. One
// thread at a time may call them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/error.h"
#include "common/base/file.h"

namespace muster::net {

struct LogBudget {
  std::uint64_t limit_bytes = 0;
  std::uint64_t used_bytes = 0;
  struct Part {
    std::string path;
    std::string file;  // the log file that the part belongs to
    std::uint64_t size_bytes = 0;
    std::uint64_t begin_bytes = 0;  // bytes of the log before this part
  };
  std::deque<Part> parts{};
  std::map<std::string, std::string> emptied{};  // the emptied part of each log file
};

class LogParts {
 public:
  // `reserved`: a descriptor to close when the file is opened, so that the file gets one.
  LogParts(std::string path, UniqueFd reserved, std::shared_ptr<LogBudget> budget)
      : path_(std::move(path)), fd_(std::move(reserved)), budget_(std::move(budget)) {}
  // Call these before open(). set_mode(): the mode of a new file. set_aside(): rename an existing file to
  // NAME.old. set_new(): an existing file is an error.
  void set_mode(unsigned mode) { mode_ = mode; }
  void set_aside() { sets_aside_ = true; }
  void set_new() { is_new_ = true; }
  // Counts the content of the file, which an earlier process has written, as written. Errors name the file.
  Status take_over();
  // Opens the file for appending, and makes its directory. Does nothing if the file is open. Errors name the
  // file.
  Status open();
  // Removes what it has written from the front of `bytes`. After an error, call it again with what is left.
  Status write(std::string_view& bytes);
  void close() { fd_.reset(); }
  // Returns how many bytes were written since the file was opened, in all parts.
  std::uint64_t written_bytes() const { return cut_bytes_ + size_bytes_; }
  struct Piece {
    std::uint64_t offset = 0;  // in all that was written
    std::string bytes;
  };
  // Reads back at most `limit_bytes` from `offset` on, or from the first later byte that has not been
  // removed. Empty at the end. Only for a file that was new when it was opened. Errors name the file.
  Expected<Piece> read(std::uint64_t offset, std::size_t limit_bytes) const;
  const std::string& path() const { return path_; }

 private:
  // Returns how many of these bytes fit into the current file; zero: rotate the file first.
  std::size_t fitting(std::string_view bytes) const;
  Status cut();
  void make_room(std::size_t bytes);
  std::string part_path(std::uint64_t number) const;

  std::string path_;
  UniqueFd fd_;
  bool open_ = false;
  std::shared_ptr<LogBudget> budget_;
  unsigned mode_ = 0644;
  bool sets_aside_ = false;
  bool is_new_ = false;
  std::uint64_t size_bytes_ = 0;
  std::uint64_t cut_bytes_ = 0;  // in the older parts
  std::uint64_t part_count_ = 0;
};

}  // namespace muster::net
