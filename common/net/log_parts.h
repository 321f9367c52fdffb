// A log file, and the parts that were cut off it: NAME.log is written to, NAME.1.log, NAME.2.log and so on
// are what was written before, the oldest first.
//
// Files with the same budget together never take more than its bytes. A file is cut, at the end of a line if
// there is one, when it holds an eighth of them; the oldest parts of all are removed, but the newest of each
// file is only emptied: readers see that something is missing. Without a budget there is one file of any
// size. No part is ever written over. Blocks as files do; one thread.
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
    std::string file;  // of which the part was cut off
    std::uint64_t size_bytes = 0;
    std::uint64_t begin_bytes = 0;  // what had been written to the file before this part
  };
  std::deque<Part> parts{};
  std::map<std::string, std::string> emptied{};  // parts, by the file that they were cut off
};

class LogParts {
 public:
  // `reserved`: a descriptor that is given up for the file's.
  LogParts(std::string path, UniqueFd reserved, std::shared_ptr<LogBudget> budget)
      : path_(std::move(path)), fd_(std::move(reserved)), budget_(std::move(budget)) {}
  // Before it is opened: its mode, if it is made; that a file of its name becomes NAME.old; that one of its
  // name is an error.
  void set_mode(unsigned mode) { mode_ = mode; }
  void set_aside() { sets_aside_ = true; }
  void set_new() { is_new_ = true; }
  // What lies in the file counts as written, by a process that has ended. Errors name the file.
  Status take_over();
  // Opens the file, appending, and makes its directory, if that has not been done. Errors name the file.
  Status open();
  // Takes away from `bytes` what has been written. After an error the rest may be tried again.
  Status write(std::string_view& bytes);
  void close() { fd_.reset(); }
  // Of all that was written since the file was opened, in whatever part it lies now.
  std::uint64_t written_bytes() const { return cut_bytes_ + size_bytes_; }
  struct Piece {
    std::uint64_t offset = 0;  // of all that was written
    std::string bytes;
  };
  // Reads back at most `limit_bytes` from `offset` on, or from the first byte after it that has not been
  // removed; nothing at the end. The file was new when it was opened. Errors name the file.
  Expected<Piece> read(std::uint64_t offset, std::size_t limit_bytes) const;
  const std::string& path() const { return path_; }

 private:
  // How much of these bytes belongs into the file as it is; zero: it is to be cut first.
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
  std::uint64_t cut_bytes_ = 0;  // written to the parts that were cut off
  std::uint64_t part_count_ = 0;
};

}  // namespace muster::net
