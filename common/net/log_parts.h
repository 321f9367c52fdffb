// Writes a log file in parts. NAME.log is the part that is being written. NAME.1.log, NAME.2.log and so on
// are the earlier parts, and NAME.1.log is the oldest.
//
// - Log files can share a budget, and together never use more bytes than it allows.
// - When NAME.log has an eighth of the budget, a new part begins, at the end of a line if there is one.
// - To make room, the oldest parts of all log files are removed. But the newest earlier part of each log file
//   is only emptied, so that readers see that something is missing.
// - Without a budget there is only NAME.log, without a limit.
// Parts are never overwritten. The functions block as files do. Only one thread at a time is allowed to call
// them.
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
    std::uint64_t begin_bytes = 0;  // bytes of the log file before this part
  };
  std::deque<Part> parts{};
  std::map<std::string, std::string> emptied{};  // the emptied part of each log file, if there is one
};

class LogParts {
 public:
  // `reserved`: a descriptor that is closed when the file is opened, so that there is one for the file.
  LogParts(std::string path, UniqueFd reserved, std::shared_ptr<LogBudget> budget)
      : path_(std::move(path)), fd_(std::move(reserved)), budget_(std::move(budget)) {}
  // Call these before open():
  // - set_mode() sets the mode of a new file.
  // - set_aside() makes open() rename an existing file to NAME.old.
  // - set_new() makes open() fail if the file exists.
  void set_mode(unsigned mode) { mode_ = mode; }
  void set_aside() { sets_aside_ = true; }
  void set_new() { is_new_ = true; }
  // Counts the content of an existing file as written, so that read() can return it. Errors name the file.
  Status take_over();
  // Opens the file for appending, and makes its directory. Does nothing if the file is open. Errors name the
  // file.
  Status open();
  // Writes `bytes`, and removes from its front what was written. After an error, call it again with what is
  // left.
  Status write(std::string_view& bytes);
  void close() { fd_.reset(); }
  // Returns how many bytes were written, in all parts.
  std::uint64_t written_bytes() const { return cut_bytes_ + size_bytes_; }
  struct Piece {
    std::uint64_t offset = 0;  // in the log file, counted over all parts
    std::string bytes;
  };
  // Reads at most `limit_bytes` from `offset` on. If this part was removed, reads from the first later byte
  // that is still there. The piece is empty at the end of the file. Only for a file that was new when it was
  // opened, or after take_over(). Errors name the file.
  Expected<Piece> read(std::uint64_t offset, std::size_t limit_bytes) const;
  const std::string& path() const { return path_; }

 private:
  // Returns how many of these bytes fit into the current part; 0: a new part must begin first.
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
  std::uint64_t cut_bytes_ = 0;  // in the earlier parts
  std::uint64_t part_count_ = 0;
};

}  // namespace muster::net
