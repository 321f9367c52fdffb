// Functions that glibc got after version 2.28, for programs that have to run with 2.28
// (cmake/old_glibc.cmake).
//
// The linker takes a function from here instead of from glibc, and leaves the others out. Two of them do less
// than glibc's, and say so below. These two call glibc's function if the glibc at run time has it.
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <iterator>
#include <link.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

// Looks up glibc's own function of this name. Returns null if glibc is too old to have it.
template <typename Function>
Function* of_glibc(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

extern "C" {

// ---- 2.33: stat. Before, a program had stat() of its own, and the library had these.

int __xstat(int version, const char* path, struct stat* found);
int __lxstat(int version, const char* path, struct stat* found);
int __fxstat(int version, int fd, struct stat* found);
int __fxstatat(int version, int fd, const char* path, struct stat* found, int flags);

namespace {
constexpr int kStatVersion = 1;  // of x86-64
}  // namespace

int stat(const char* path, struct stat* found) noexcept {
  return __xstat(kStatVersion, path, found);
}
int lstat(const char* path, struct stat* found) noexcept {
  return __lxstat(kStatVersion, path, found);
}
int fstat(int fd, struct stat* found) noexcept {
  return __fxstat(kStatVersion, fd, found);
}
int fstatat(int fd, const char* path, struct stat* found, int flags) noexcept {
  return __fxstatat(kStatVersion, fd, path, found, flags);
}
// On 64-bit machines, both structs are the same.
int stat64(const char* path, struct stat64* found) noexcept {
  return stat(path, reinterpret_cast<struct stat*>(found));
}
int lstat64(const char* path, struct stat64* found) noexcept {
  return lstat(path, reinterpret_cast<struct stat*>(found));
}
int fstat64(int fd, struct stat64* found) noexcept {
  return fstat(fd, reinterpret_cast<struct stat*>(found));
}
int fstatat64(int fd, const char* path, struct stat64* found, int flags) noexcept {
  return fstatat(fd, path, reinterpret_cast<struct stat*>(found), flags);
}

// ---- 2.32

// If it is true, counters of shared_ptr use no atomic instructions.
char __libc_single_threaded = 0;

const char* sigabbrev_np(int number) noexcept {
  static constexpr const char* kNames[] = {
      nullptr, "HUP",  "INT",  "QUIT", "ILL",    "TRAP",   "ABRT",  "BUS",  "FPE",  "KILL", "USR1",
      "SEGV",  "USR2", "PIPE", "ALRM", "TERM",   "STKFLT", "CHLD",  "CONT", "STOP", "TSTP", "TTIN",
      "TTOU",  "URG",  "XCPU", "XFSZ", "VTALRM", "PROF",   "WINCH", "POLL", "PWR",  "SYS"};
  return number >= 0 && number < static_cast<int>(std::size(kNames)) ? kNames[number] : nullptr;
}

// ---- 2.30

pid_t gettid() noexcept {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

namespace {

constexpr long long kSecond = 1'000'000'000;  // ns

// Waits by the wall clock, for a second at most, and then returns as if it had been woken for no reason. So
// the caller tests its condition again. If the wall clock is set back during the wait, the wait takes longer
// by the same time.
int wait_by_wall_clock(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                       const timespec* until) {
  timespec now{};
  timespec wall{};
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &wall);
  const long long left = (until->tv_sec - now.tv_sec) * kSecond + (until->tv_nsec - now.tv_nsec);
  if (left <= 0) return ETIMEDOUT;
  const long long end = wall.tv_nsec + (left < kSecond ? left : kSecond);
  wall.tv_sec += end / kSecond;
  wall.tv_nsec = end % kSecond;
  const int result = pthread_cond_timedwait(condition, mutex, &wall);
  return result == ETIMEDOUT && left > kSecond ? 0 : result;
}

}  // namespace

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  static const auto newer = of_glibc<decltype(pthread_cond_clockwait)>("pthread_cond_clockwait");
  return (newer != nullptr ? newer : wait_by_wall_clock)(condition, mutex, clock, until);
}

// ---- 2.34

namespace {

struct DirectoryEntry {  // as getdents64(2) writes it
  std::uint64_t inode;
  std::int64_t offset;
  unsigned short size;
  unsigned char type;
  char name[];
};

// Returns the number that the text consists of. Returns -1 if the text is something else.
int number_of(const char* text) {
  int number = 0;
  for (const char* digit = text; *digit != 0; ++digit) {
    if (*digit < '0' || *digit > '9') return -1;
    number = 10 * number + (*digit - '0');
  }
  return number;
}

// For older kernels. Allocates nothing, because a forked child calls it.
int close_each(unsigned first, unsigned last, int flags) {
  if ((flags & CLOSE_RANGE_UNSHARE) != 0 && unshare(CLONE_FILES) != 0) return -1;
  const int list = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (list < 0) return -1;
  alignas(DirectoryEntry) char buffer[2048];
  long size = 0;
  while ((size = syscall(SYS_getdents64, list, buffer, sizeof buffer)) > 0) {
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
      at += entry->size;
      const int fd = number_of(entry->name);
      if (fd < 0 || fd == list || static_cast<unsigned>(fd) < first || static_cast<unsigned>(fd) > last)
        continue;
      (flags & CLOSE_RANGE_CLOEXEC) != 0 ? fcntl(fd, F_SETFD, FD_CLOEXEC) : close(fd);
    }
  }
  close(list);
  return size == 0 ? 0 : -1;
}

}  // namespace

int close_range(unsigned first, unsigned last, int flags) noexcept {
  const long result = syscall(SYS_close_range, first, last, flags);
  // Kernels before 5.9 lack the call, and kernels before 5.11 lack CLOSE_RANGE_CLOEXEC.
  const bool lacks = errno == ENOSYS || (errno == EINVAL && (flags & CLOSE_RANGE_CLOEXEC) != 0);
  return result == 0 || !lacks ? static_cast<int>(result) : close_each(first, last, flags);
}

// Without glibc's own, the child closes the descriptors that are open now.
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t* actions, int first) noexcept {
  const auto newer = of_glibc<decltype(posix_spawn_file_actions_addclosefrom_np)>(
      "posix_spawn_file_actions_addclosefrom_np");
  if (newer != nullptr) return newer(actions, first);
  DIR* const list = opendir("/proc/self/fd");
  if (list == nullptr) return errno;
  int result = 0;
  while (const dirent* entry = result == 0 ? readdir(list) : nullptr) {
    const int fd = number_of(entry->d_name);
    if (fd >= first && fd != dirfd(list)) result = posix_spawn_file_actions_addclose(actions, fd);
  }
  closedir(list);
  return result;
}

// ---- 2.35

// The unwinder of exceptions calls this for each frame. Most frames are in this program itself, so it looks
// there first.
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

namespace {

struct Search {
  std::uintptr_t address;
  dl_find_object* found;
};

// Returns whether the address is in this object. Then writes where its table of frames is.
bool look(std::uintptr_t base, const ElfW(Phdr) * headers, int count, const Search& search) {
  std::uintptr_t table = 0;
  std::uintptr_t first = UINTPTR_MAX;
  std::uintptr_t last = 0;
  bool inside = false;
  for (const ElfW(Phdr)* header = headers; header != headers + count; ++header) {
    const std::uintptr_t begin = base + header->p_vaddr;
    const std::uintptr_t end = begin + header->p_memsz;
    if (header->p_type == PT_GNU_EH_FRAME) table = begin;
    if (header->p_type != PT_LOAD) continue;
    inside = inside || (begin <= search.address && search.address < end);
    if (begin < first) first = begin;
    if (end > last) last = end;
  }
  if (!inside || table == 0) return false;
  *search.found = {};
  search.found->dlfo_map_start = reinterpret_cast<void*>(first);
  search.found->dlfo_map_end = reinterpret_cast<void*>(last);
  search.found->dlfo_eh_frame = reinterpret_cast<void*>(table);
  return true;
}

}  // namespace

int _dl_find_object(void* address, dl_find_object* found) noexcept {
  Search search{reinterpret_cast<std::uintptr_t>(address), found};
  const auto base = reinterpret_cast<std::uintptr_t>(&__ehdr_start);
  const auto* headers = reinterpret_cast<const ElfW(Phdr)*>(base + __ehdr_start.e_phoff);
  if (look(base, headers, __ehdr_start.e_phnum, search)) return 0;
  const auto look_in = [](dl_phdr_info* object, std::size_t, void* what) {
    return look(object->dlpi_addr, object->dlpi_phdr, object->dlpi_phnum, *static_cast<Search*>(what)) ? 1
                                                                                                       : 0;
  };
  return dl_iterate_phdr(look_in, &search) != 0 ? 0 : -1;
}

// ---- 2.36

std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  if (getentropy(&number, sizeof number) != 0) abort();
  return number;
}

// ---- Not new, but in libm.so.6. Hash tables need no other function of that library, and without it a
// program starts sooner.

double ceil(double x) noexcept {
  constexpr double kNoFraction = 0x1p52;  // from here on, doubles are whole numbers
  if (!(__builtin_fabs(x) < kNoFraction)) return x;
  double whole = static_cast<double>(static_cast<long long>(x));
  if (whole < x) whole += 1;
  return __builtin_copysign(whole, x);
}

}  // extern "C"
