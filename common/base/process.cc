#include "common/base/process.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <malloc.h>
#include <optional>
#include <sched.h>
#include <sstream>
#include <string_view>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/text.h"

namespace muster {

namespace {

// The struct sched_attr of the kernel, in its first size. The C library has it only from version 2.41 on.
struct SchedulingAttributes {
  std::uint32_t size = 48;
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;  // with SCHED_OTHER: the wanted time slice
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

constexpr std::uint64_t kResetOnFork = 1;
constexpr auto kShortSlice = std::chrono::microseconds(100);  // the shortest that the kernel accepts

// Reads /proc/self/task/TID/children. If a child left such a list while this function reads it, another child
// could be missed. That does not happen: a child leaves the list only when it is reaped, and nobody reaps
// children at that time.
std::optional<std::vector<pid_t>> children_of_threads() {
  DIR* threads = opendir("/proc/self/task");
  if (threads == nullptr) return std::nullopt;
  std::optional<std::vector<pid_t>> children(std::in_place);
  while (const dirent* entry = readdir(threads)) {
    if (entry->d_name[0] == '.') continue;
    const auto list = read_file(std::string("/proc/self/task/") + entry->d_name + "/children", 64 << 20);
    if (!list) {
      children.reset();
      break;
    }
    std::istringstream numbers(*list);
    for (pid_t pid = 0; numbers >> pid;) children->push_back(pid);
  }
  closedir(threads);
  return children;
}

// Returns what follows the name in /proc/PID/stat, "PID (NAME) STATE PPID ...". NAME can contain parentheses,
// so the result starts after the last parenthesis.
Expected<std::string> stat_behind_name(pid_t pid) {
  auto text = read_file(fmt::format("/proc/{}/stat", pid), 4096);
  if (text) text->erase(0, text->rfind(')') + 1);
  return text;
}

// Returns the time at which the process started, which is field 22 of /proc/PID/stat. Returns 0 if the
// process is gone or a zombie. Returns nothing if /proc hides the process because it belongs to another user
// (mount option hidepid).
std::optional<std::int64_t> start_ticks_of(pid_t pid) {
  const auto text = stat_behind_name(pid);
  if (!text) return kill(pid, 0) != 0 && errno == ESRCH ? std::optional<std::int64_t>(0) : std::nullopt;
  const auto fields = split(*text, ' ');
  constexpr std::size_t kState = 1;  // counted from the parenthesis
  constexpr std::size_t kStart = 20;
  if (fields.size() <= kStart || fields[kState] == "Z" || fields[kState] == "X") return 0;
  return parse_number<std::int64_t>(fields[kStart]).value_or(0);
}

ProcessIdentity read_own_identity() {
  ProcessIdentity self{.pid = getpid(), .start_ticks = start_ticks_of(getpid()).value_or(0)};
  char buffer[256] = "";
  if (gethostname(buffer, sizeof buffer - 1) == 0) self.host = buffer;
  const char* user = std::getenv("USER");
  self.user = user != nullptr ? user : std::to_string(getuid());
  self.boot_id = read_file("/proc/sys/kernel/random/boot_id", 100).value_or("");
  while (self.boot_id.ends_with('\n')) self.boot_id.pop_back();
  std::error_code error;
  self.pid_namespace = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
  return self;
}

}  // namespace

// Every trial of a sweep needs the identity, so each thread keeps it. A forked child finds that its pid is
// another one, and reads its own identity.
ProcessIdentity own_identity() {
  thread_local ProcessIdentity self;
  if (self.pid != getpid()) self = read_own_identity();
  return self;
}

std::optional<bool> is_alive(const ProcessIdentity& process) {
  const ProcessIdentity self = own_identity();
  if (process.pid == 0 || process.host != self.host) return std::nullopt;
  if (process.boot_id != self.boot_id) return false;
  if (process.pid_namespace != self.pid_namespace) return std::nullopt;
  if (process.start_ticks == 0) return false;
  const auto start_ticks = start_ticks_of(process.pid);
  if (!start_ticks) return std::nullopt;
  return *start_ticks == process.start_ticks;
}

void become_subreaper() {
  CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "this kernel has no child subreapers: {}",
        std::strerror(errno));
}

void ask_for_short_slices() {
  SchedulingAttributes own;
  if (syscall(SYS_sched_getattr, 0, &own, sizeof own, 0) < 0) return;
  // The user may have set a policy or a negative nice value. kResetOnFork would take it away from the
  // children.
  if (own.policy != SCHED_OTHER || own.nice < 0) return;
  own.flags |= kResetOnFork;
  own.runtime_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(kShortSlice).count());
  syscall(SYS_sched_setattr, 0, &own, 0);  // refused or ignored by older kernels
}

bool is_exiting(pid_t pid) {
  constexpr std::uint32_t kExiting = 0x4;  // PF_EXITING in the field `flags`, see proc(5)
  constexpr std::size_t kFlags = 7;        // counted from the parenthesis
  const std::string text = stat_behind_name(pid).value_or("");
  const auto fields = split(text, ' ');
  const auto flags = fields.size() > kFlags ? parse_number<std::uint32_t>(fields[kFlags]) : std::nullopt;
  return !flags || (*flags & kExiting) != 0;
}

pid_t parent_of(pid_t pid) {
  const auto text = stat_behind_name(pid);
  int parent = 0;
  if (!text || std::sscanf(text->c_str(), " %*c %d", &parent) != 1) return 0;
  return parent;
}

bool is_below(pid_t pid, const std::set<pid_t>& ancestors) {
  pid_t next = pid;
  while ((next = parent_of(next)) > 0) {
    if (ancestors.contains(next)) return true;
  }
  return false;
}

Expected<std::vector<pid_t>> list_children() {
  // Not every kernel lists the children of a thread. If this one does not, the function has to read the entry
  // of every process in /proc, which takes 20 us for each.
  if (auto children = children_of_threads()) return *std::move(children);
  std::vector<pid_t> children;
  DIR* processes = opendir("/proc");
  if (processes == nullptr) return system_failure("cannot read /proc", errno);
  const pid_t self = getpid();
  while (const dirent* entry = readdir(processes)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    const auto pid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (parent_of(pid) == self) children.push_back(pid);
  }
  closedir(processes);
  return children;
}

std::string environment_of(pid_t pid) {
  constexpr std::size_t kMaxBytes = 16 << 20;
  return read_file(fmt::format("/proc/{}/environ", pid), kMaxBytes).value_or("");
}

bool was_executed_with(pid_t pid, std::string_view entry) {
  const std::string environment = environment_of(pid);
  std::string_view rest = environment;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    if (rest.substr(0, end) == entry) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

// Reads the user from the file `status`. The owner of the directory /proc/PID is not always the user: if a
// process is not dumpable (PR_SET_DUMPABLE), its directory belongs to root.
std::optional<uid_t> user_of(pid_t pid) {
  const auto status = read_file(fmt::format("/proc/{}/status", pid), 64 << 10);
  unsigned uid = 0;
  const std::size_t line = status ? status->find("\nUid:") : std::string::npos;
  if (line == std::string::npos || std::sscanf(status->c_str() + line, "\nUid: %u", &uid) != 1)
    return std::nullopt;
  return uid;
}

std::string name_of(pid_t pid) {
  std::string name = read_file(fmt::format("/proc/{}/comm", pid), 64).value_or("");
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

Leftover kill_leftover(pid_t pid) {
  Leftover left{.pid = pid};
  if (kill(pid, SIGKILL) != 0) left.error = errno;
  left.name = name_of(pid);
  if (const auto uid = user_of(pid)) left.uid = *uid;
  return left;
}

std::string describe(const Leftover& left) {
  const std::string who = fmt::format("process {} ({}, uid {})", left.pid, left.name, left.uid);
  if (left.error == 0) return who + " is still alive after SIGKILL (errno 0)";
  return fmt::format("{} cannot be killed: {} (errno {})", who, std::strerror(left.error), left.error);
}

void open_standard_streams() {
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (fd > STDERR_FILENO) close(fd);
}

rlimit raise_descriptor_limit() {
  rlimit before{};
  CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0, "getrlimit: {}", std::strerror(errno));
  const rlimit most{before.rlim_max, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &most);  // after a failure the limit stays as it is, which does no harm
  return before;
}

void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 8 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  // All threads share one arena. A second arena would take 0.1 ms to make, and the log thread needs little
  // memory.
  mallopt(M_ARENA_MAX, 1);
}

std::map<std::string, std::string, std::less<>> own_environment() {
  std::map<std::string, std::string, std::less<>> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

}  // namespace muster
