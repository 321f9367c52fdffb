// Reads one stream of one rank while it grows. With --log-limit, the agent cuts off parts of the file:
// NAME.1.log, NAME.2.log and so on. These are read first, the oldest one before the others. Then NAME.log is
// read.
//
// Files are open only while they are read, so there can be any number of streams. Each byte is read once,
// even if the agent cuts the file or removes a part at the same time. Blocking; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <vector>

#include "common/base/error.h"
#include "common/base/file.h"

namespace muster::launcher {

class LogStream {
 public:
  // Called with new bytes, in the order of the stream. `written` is the time at which the file was last
  // written, in seconds since 1970.
  using OnBytes = std::function<void(std::string_view bytes, double written)>;

  LogStream(std::string directory, std::string name)
      : directory_(std::move(directory)), name_(std::move(name)) {}
  bool exists() const;
  // Reads new bytes, but at most `limit_bytes`. If this fails, the error names the file, and the next call
  // tries it again.
  Status read(const OnBytes& on_bytes, std::uint64_t limit_bytes = UINT64_MAX);
  // Returns whether the agent has removed parts of the stream, such as NAME.1.log, before this object had
  // read them.
  bool has_gap() const { return has_gap_; }

 private:
  struct Part {
    std::uint64_t number = 0;
    std::string path;
    struct stat status{};
  };
  std::string path() const { return directory_ + "/" + name_ + ".log"; }
  std::vector<Part> parts() const;
  Status read_parts(const std::vector<Part>& parts, const OnBytes& on_bytes);
  Status read_rest(int fd, const std::string& path, const OnBytes& on_bytes);

  std::string directory_;
  std::string name_;
  // The number of the file that is being read: 1 for NAME.1.log. NAME.log has no number yet. While NAME.log
  // is being read, this is the number that the agent will give to the file when it cuts the file off. 0 means
  // that nothing was read yet.
  std::uint64_t number_ = 0;
  std::uint64_t offset_ = 0;      // in that file
  std::uint64_t left_bytes_ = 0;  // of the limit
  bool has_gap_ = false;
  struct stat last_{};  // of NAME.log, when all of it had been read
};

}  // namespace muster::launcher
