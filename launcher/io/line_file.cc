#include "launcher/io/line_file.h"

#include <cerrno>
#include <fcntl.h>
#include <utility>

namespace muster::launcher {

LineFile::LineFile(std::string path)
    : path_(std::move(path)), fd_(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (!fd_) opened_ = system_failure("cannot create " + path_, errno);
}

std::optional<std::string> LineFile::append(std::string_view lines) {
  const Status written = opened_ ? write_all(fd_.get(), lines, path_) : opened_;
  if (written || std::exchange(told_, true)) return std::nullopt;
  return written.error().message() + "; the job goes on without it";
}

}  // namespace muster::launcher
