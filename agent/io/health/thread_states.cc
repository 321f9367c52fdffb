#include "agent/io/health/thread_states.h"

#include <algorithm>
#include <dirent.h>
#include <fmt/format.h>
#include <memory>
#include <string_view>
#include <sys/syscall.h>
#include <utility>
#include <vector>

#include "common/base/file.h"
#include "common/base/text.h"

namespace muster::agent {

namespace {

constexpr std::size_t kMaxThreads = 256;
constexpr std::size_t kMaxStatBytes = 16 << 10;

std::string read_stat(const std::string& path) {
  std::string text = read_file(path, kMaxStatBytes).value_or("");
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) text.pop_back();
  return text;
}

const char* describe_state(char state) {
  switch (state) {
    case 'R': return "runs";
    case 'S': return "sleeps";
    case 'D': return "waits and cannot be interrupted";
    case 'T': return "is stopped";
    case 't': return "is stopped by a debugger";
    case 'Z':
    case 'X': return "has ended";
    default: return "is in an unknown state";
  }
}

// Returns the name of a system call, if it is one in which threads often wait. Returns "" for any other call.
std::string_view name_of_call(long number) {
  static constexpr std::pair<long, std::string_view> kCalls[] = {
      {SYS_read, "read"},
      {SYS_write, "write"},
      {SYS_futex, "futex"},
      {SYS_ppoll, "ppoll"},
      {SYS_pselect6, "pselect"},
      {SYS_epoll_pwait, "epoll_pwait"},
      {SYS_nanosleep, "nanosleep"},
      {SYS_clock_nanosleep, "clock_nanosleep"},
      {SYS_wait4, "wait4"},
      {SYS_waitid, "waitid"},
      {SYS_recvfrom, "recvfrom"},
      {SYS_recvmsg, "recvmsg"},
      {SYS_sendto, "sendto"},
      {SYS_sendmsg, "sendmsg"},
      {SYS_connect, "connect"},
      {SYS_accept, "accept"},
      {SYS_accept4, "accept4"},
      {SYS_flock, "flock"},
      {SYS_fsync, "fsync"},
      {SYS_fdatasync, "fdatasync"},
      {SYS_openat, "openat"},
      {SYS_ioctl, "ioctl"},
      {SYS_rt_sigtimedwait, "sigtimedwait"},
      {SYS_rt_sigsuspend, "sigsuspend"},
#ifdef SYS_poll
      {SYS_poll, "poll"},
      {SYS_select, "select"},
      {SYS_epoll_wait, "epoll_wait"},
      {SYS_pause, "pause"},
#endif
  };
  const auto* found = std::ranges::find(kCalls, number, &std::pair<long, std::string_view>::first);
  return found != std::end(kCalls) ? found->second : "";
}

std::string describe_thread(const std::string& directory, const std::string& id) {
  const std::string stat = read_stat(directory + "/stat");
  const std::size_t end = stat.rfind(") ");
  if (end == std::string::npos) return "";
  std::string text = fmt::format("thread {} ({}): {}", id, read_stat(directory + "/comm"),
                                 describe_state(end + 2 < stat.size() ? stat[end + 2] : '?'));
  const std::string call = read_stat(directory + "/syscall");  // "running", or the number and its arguments
  if (const auto number = parse_number<long>(std::string_view(call).substr(0, call.find(' ')))) {
    const std::string_view name = name_of_call(*number);
    if (*number >= 0)
      text += fmt::format(", system call {}{}", *number, name.empty() ? "" : fmt::format(" ({})", name));
  }
  const std::string wait = read_stat(directory + "/wchan");
  if (!wait.empty() && wait != "0") text += ", in " + wait;
  text += '\n';
  // The next file has the stack within the kernel. Only root can read it.
  const std::string stack = read_stat(directory + "/stack");
  for (const std::string_view line : split(stack, '\n')) {
    if (!line.empty()) text += fmt::format("    {}\n", line);
  }
  return text;
}

}  // namespace

std::string describe_threads(pid_t pid) {
  const std::string directory = fmt::format("/proc/{}/task", pid);
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(opendir(directory.c_str()), closedir);
  if (!threads) return "the process has ended\n";
  std::string text;
  std::size_t count = 0;
  while (const dirent* entry = readdir(threads.get())) {
    if (entry->d_name[0] == '.' || ++count > kMaxThreads) continue;
    text += describe_thread(directory + "/" + entry->d_name, entry->d_name);
  }
  if (count > kMaxThreads) text += fmt::format("and {} more threads\n", count - kMaxThreads);
  return text;
}

}  // namespace muster::agent
