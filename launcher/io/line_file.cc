#include "launcher/io/line_file.h"

#include <cerrno>
#include <fcntl.h>
#include <utility>

namespace muster::launcher {

Status LineFile::open() {
  if (!fd_) fd_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  return fd_ ? Status() : system_failure("cannot create " + path_, errno);
}

std::optional<std::string> LineFile::append(std::string_view lines) {
  const Status opened = open();
  const Status written = opened ? write_all(fd_.get(), lines, path_) : opened;
  if (written || std::exchange(told_, true)) return std::nullopt;
  return written.error().message() + "; the job goes on without it";
}

}  // namespace muster::launcher
