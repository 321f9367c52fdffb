// Writes a log file in parts. NAME.log is the part that is being written. The earlier parts are NAME.1.log,
// NAME.2.log and so on; NAME.1.log is the oldest one.
//
// - Several log files can share a budget. Together they never use more bytes than it allows.
// - When NAME.log has reached an eighth of the budget, a new part begins. If possible, it begins at the
//   beginning of a line.
// - To make room, the oldest parts of all log files are removed. But the newest earlier part of each log file
//   is only emptied, so that readers see that something is missing.
// - Without a budget there is only NAME.log, and it has no limit.
// Parts are never overwritten. The functions block, as files do. Only one thread at a time may call them.
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
  // `reserved` is any open descriptor. It is closed just before the file is opened, so that a descriptor for
  // the file is free.
  LogParts(std::string path, UniqueFd reserved, std::shared_ptr<LogBudget> budget)
      : path_(std::move(path)), fd_(std::move(reserved)), budget_(std::move(budget)) {}
  // Call these before open():
  // - set_mode() sets the mode of a new file.
  // - set_aside() makes open() rename an existing file to NAME.old.
  // - set_new() makes open() fail if the file exists.
  void set_mode(unsigned mode) { mode_ = mode; }
  void set_aside() { sets_aside_ = true; }
  void set_new() { is_new_ = true; }
  // Call this if another object has written the file, for example in an earlier agent. From then on read()
  // can read the file. An error names the file.
  Status take_over();
  // Opens the file to append to it, and makes the file's directory. If the file is open, this does nothing.
  // An error names the file.
  Status open();
  // Writes `bytes`, and removes the written part from the front of `bytes`. If this fails, the caller can try
  // again with the rest.
  Status write(std::string_view& bytes);
  void close() { fd_.reset(); }
  // Returns how many bytes were written to all parts together.
  std::uint64_t written_bytes() const { return cut_bytes_ + size_bytes_; }
  struct Piece {
    std::uint64_t offset = 0;  // in the log file, counted over all parts
    std::string bytes;
  };
  // Reads at most `limit_bytes` bytes, beginning at `offset`. If that part of the log was removed, reads from
  // the first later byte that is still there. At the end of the file, the piece is empty. Call this only for
  // a file that was new when it was opened, or after take_over(). An error names the file.
  Expected<Piece> read(std::uint64_t offset, std::size_t limit_bytes) const;
  const std::string& path() const { return path_; }

 private:
  // Returns how many of these bytes still fit into the current part. If it is 0, a new part must begin first.
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
