#include "runtime/rank/warm/fork_safety.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <optional>
#include <string_view>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/text.h"

namespace muster::warm {
namespace {

constexpr int kOmpPauseHard = 2;
constexpr int kMemoryDevices = 1;  // major number of null, zero, full, random, urandom
constexpr std::uint64_t kMaxBytes = 64 << 20;
// The number of checks whether the threads of the OpenMP pool have ended, and the time between two checks.
constexpr int kTries = 50;
constexpr useconds_t kTryUs = 1000;

std::vector<int> numbers_in(const char* directory) {
  std::vector<int> numbers;
  DIR* const stream = opendir(directory);
  if (stream == nullptr) return numbers;
  while (const dirent* entry = readdir(stream)) {
    const auto number = parse_number<int>(entry->d_name);
    if (number && *number != dirfd(stream)) numbers.push_back(*number);
  }
  closedir(stream);
  return numbers;
}

std::string name_of_thread(int thread) {
  auto name = read_file(fmt::format("/proc/self/task/{}/comm", thread), 64).value_or("");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

void end_openmp_pool() {
  auto* const pause = reinterpret_cast<int (*)(int)>(dlsym(RTLD_DEFAULT, "omp_pause_resource_all"));
  if (pause != nullptr) pause(kOmpPauseHard);
}

std::string threads() {
  if (gettid() != getpid()) return "init() was not called on the main thread";
  end_openmp_pool();
  std::vector<int> found = numbers_in("/proc/self/task");
  for (int tries = 0; found.size() > 1 && tries < kTries; ++tries) {
    usleep(kTryUs);
    found = numbers_in("/proc/self/task");
  }
  if (found.size() == 1) return "";
  if (found.empty()) return "/proc cannot be read";
  const int other = found[0] == getpid() ? found[1] : found[0];
  return fmt::format("it has {} threads (one is \"{}\")", found.size(), name_of_thread(other));
}

std::string target_of(int fd) {
  char target[256] = {};
  const ssize_t size = readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target, sizeof target - 1);
  return size < 0 ? fmt::format("descriptor {}", fd) : target;
}

bool is_locked(int fd) {
  const auto info = read_file(fmt::format("/proc/self/fdinfo/{}", fd), 64 << 10);
  return info && info->find("\nlock:") != std::string::npos;
}

// Returns "" if it is safe that a fork shares the descriptor or reopens it. Otherwise returns the reason why
// it is not safe. Adds a descriptor that the fork must reopen to `files`.
std::string descriptor(int fd, std::vector<int>& files) {
  struct stat status{};
  if (fstat(fd, &status) < 0 || S_ISDIR(status.st_mode)) return "";
  if (S_ISCHR(status.st_mode) && major(status.st_rdev) == kMemoryDevices) return "";
  if (!S_ISREG(status.st_mode)) return fmt::format("it has {} open", target_of(fd));
  const bool writable = (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
  if (status.st_nlink == 0 && writable)
    return fmt::format("it has a deleted file open for writing, {}", target_of(fd));
  if (is_locked(fd)) return fmt::format("it holds a lock on {}", target_of(fd));
  if (!reopen(fd)) return fmt::format("{} cannot be opened again: {}", target_of(fd), std::strerror(errno));
  files.push_back(fd);
  return "";
}

std::string shared_mapping() {
  const auto maps = read_file("/proc/self/maps", kMaxBytes);
  if (!maps) return maps.error().message();
  for (const std::string_view line : split(*maps, '\n')) {
    if (line.find(" rw-s ") == std::string_view::npos && line.find(" rwxs ") == std::string_view::npos)
      continue;
    return fmt::format("it shares writable memory: {}", line.substr(std::min(line.find('/'), line.size())));
  }
  return "";
}

}  // namespace

ForkSafety check_fork_safety(int own_fd) {
  ForkSafety safety;
  safety.unsafe = threads();
  for (const int fd : numbers_in("/proc/self/fd")) {
    if (!safety.unsafe.empty()) return safety;
    if (fd > STDERR_FILENO && fd != own_fd) safety.unsafe = descriptor(fd, safety.files);
  }
  if (safety.unsafe.empty()) safety.unsafe = shared_mapping();
  return safety;
}

bool reopen(int fd) {
  const int flags = fcntl(fd, F_GETFL) & ~(O_CREAT | O_EXCL | O_TRUNC);
  const UniqueFd own(open(fmt::format("/proc/self/fd/{}", fd).c_str(), flags | O_CLOEXEC));
  if (!own) return false;
  const bool closes = (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
  const off_t at = lseek(fd, 0, SEEK_CUR);
  return lseek(own.get(), at, SEEK_SET) == at && dup3(own.get(), fd, closes ? O_CLOEXEC : 0) == fd;
}

}  // namespace muster::warm
