#include "launcher/io/sweep/controller_lock.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/process.h"
#include "common/base/text.h"

namespace muster::launcher::sweep {

namespace {

constexpr mode_t kEverybodyReads = 0644;
constexpr Duration kStartingLimit = std::chrono::seconds(5);
constexpr auto kLockPeriod = std::chrono::milliseconds(1);

std::string lock_path(const std::string& directory) {
  return directory + "/controller";
}

// Returns the description of a lock on the whole file. It is for F_OFD_SETLK and F_OFD_GETLK, which lock an
// open file description. A POSIX lock (F_SETLK) would end when this process closes any other descriptor of
// the same file.
struct flock whole_file() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// Reads "HOST PID", which take() has written. Returns nullopt if the process that took the lock has not
// written it yet.
std::optional<Controller> named_in(int file) {
  std::array<char, 512> bytes;
  const ssize_t count = pread(file, bytes.data(), bytes.size(), 0);
  if (count <= 0) return std::nullopt;
  const auto words =
      split(std::string_view(bytes.data(), static_cast<std::size_t>(count)).substr(0, bytes.size()), '\n');
  const auto parts = split(words.front(), ' ');
  if (words.size() < 2 || parts.size() != 2) return std::nullopt;
  const auto pid = parse_number<std::int64_t>(parts[1]);
  if (!pid) return std::nullopt;
  return Controller{one_line(std::string(parts[0])), *pid};
}

bool is_gone(const std::optional<Controller>& controller) {
  return controller && controller->host == own_identity().host &&
         is_exiting(static_cast<pid_t>(controller->pid));
}

// Takes the lock. Returns 0 if this process has the lock now, and otherwise the errno of fcntl. If the last
// controller was killed while it was starting a process, the new process still holds the lock until it
// executes its program. So if the last controller is gone, this tries again for a while.
int lock_or_error(int file) {
  const TimePoint end = Clock::now() + kStartingLimit;
  for (;;) {
    struct flock lock = whole_file();
    if (fcntl(file, F_OFD_SETLK, &lock) == 0) return 0;
    const int error = errno;
    if ((error != EAGAIN && error != EACCES) || !is_gone(named_in(file)) || Clock::now() > end) return error;
    std::this_thread::sleep_for(kLockPeriod);
  }
}

}  // namespace

Expected<ControllerLock> ControllerLock::take(const std::string& directory) {
  const std::string path = lock_path(directory);
  UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kEverybodyReads));
  if (!file) return system_failure("cannot open " + path, errno);
  if (const int error = lock_or_error(file.get()); error != 0) {
    if (error != EAGAIN && error != EACCES) return system_failure("cannot lock " + path, error);
    const auto other = named_in(file.get());
    return failure(ErrorCode::kFenced, "{} already runs the sweep in {}: stop it first, or wait for its end",
                   other ? fmt::format("process {} on {}", other->pid, other->host) : "another process",
                   directory);
  }
  const ProcessIdentity self = own_identity();
  const std::string text = fmt::format("{} {}\n", self.host, self.pid);
  if (ftruncate(file.get(), 0) != 0) return system_failure("cannot write " + path, errno);
  if (const auto written = write_all(file.get(), text, path); !written)
    return std::unexpected(written.error());
  return ControllerLock(std::move(file));
}

std::optional<Controller> running_controller(const std::string& directory) {
  const UniqueFd file(open(lock_path(directory).c_str(), O_RDONLY | O_CLOEXEC));
  struct flock lock = whole_file();
  if (!file || fcntl(file.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  return named_in(file.get());
}

}  // namespace muster::launcher::sweep
