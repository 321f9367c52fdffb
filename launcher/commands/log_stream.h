// Reads one stream of one rank as it grows: first the parts that the agent cut off under --log-limit,
// NAME.1.log, NAME.2.log and so on, the oldest first; then NAME.log.
//
// Files are open only while they are read, so that there may be any number of streams. Each byte is read
// once, even if the agent cuts the file or removes a part meanwhile. Blocking; one thread.
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
  // New bytes, in the order of the stream; `written`: the file's modification time, in seconds since 1970.
  using OnBytes = std::function<void(std::string_view bytes, double written)>;

  LogStream(std::string directory, std::string name)
      : directory_(std::move(directory)), name_(std::move(name)) {}
  bool exists() const;
  // Reads at most `limit_bytes` of new bytes. Errors name the file; the next call tries it again.
  Status read(const OnBytes& on_bytes, std::uint64_t limit_bytes = UINT64_MAX);
  // Whether the agent removed parts before this object had read them.
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
  // The number of the part being read; for NAME.log, the number that it will get when it is cut off. 0: none
  // yet.
  std::uint64_t number_ = 0;
  std::uint64_t offset_ = 0;      // in that file
  std::uint64_t left_bytes_ = 0;  // of the limit
  bool has_gap_ = false;
  struct stat last_{};  // of NAME.log, when all of it had been read
};

}  // namespace muster::launcher
