// What one rank wrote to one of its streams, read as it grows: NAME.log, and before it the parts that the
// agent cut off it under --log-limit, NAME.1.log, NAME.2.log and so on, the oldest first.
//
// Files are open only while they are read, so that there may be any number of streams. Each byte is read
// once, also when the file is cut or a part removed meanwhile. Blocking; one thread.
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
  // What is new, in the order of the stream; `written`: when its file was last written to, since 1970.
  using OnBytes = std::function<void(std::string_view bytes, double written)>;

  LogStream(std::string directory, std::string name)
      : directory_(std::move(directory)), name_(std::move(name)) {}
  bool exists() const;
  // At most `limit_bytes` of it. Errors name the file that cannot be read; the next reading tries it again.
  Status read(const OnBytes& on_bytes, std::uint64_t limit_bytes = UINT64_MAX);
  // Parts were removed before they were read.
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
  std::uint64_t number_ = 0;  // of the part that is being read, or will be it once it is cut off; 0: none yet
  std::uint64_t offset_ = 0;  // in it
  std::uint64_t left_bytes_ = 0;  // of the limit
  bool has_gap_ = false;
  struct stat last_{};  // of NAME.log when all of it had been read
};

}  // namespace muster::launcher
