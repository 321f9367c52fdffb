#include "agent/io/children.h"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/file.h"

namespace muster::agent {

namespace {

// Of /proc/PID/stat: "pid (name) state ppid ..."; the name may hold anything, parentheses and spaces
// included.
pid_t parent_of(const char* pid) {
  const std::string path = std::string("/proc/") + pid + "/stat";
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[512];
  const ssize_t size = fd ? read(fd.get(), text, sizeof text - 1) : 0;
  if (size <= 0) return 0;
  text[size] = '\0';
  const char* name_end = std::strrchr(text, ')');
  if (name_end == nullptr || name_end[1] != ' ' || name_end[2] == '\0') return 0;
  return static_cast<pid_t>(std::strtol(name_end + 3, nullptr, 10));
}

}  // namespace

void become_subreaper() {
  CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "this kernel has no child subreapers: {}",
        std::strerror(errno));
}

std::vector<pid_t> list_children() {
  // /proc/self/task/TID/children would be quicker, but not every kernel is built with it.
  std::vector<pid_t> children;
  DIR* processes = opendir("/proc");
  CHECK(processes != nullptr, "cannot read /proc: {}", std::strerror(errno));
  const pid_t self = getpid();
  while (const dirent* entry = readdir(processes)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    if (parent_of(entry->d_name) == self)
      children.push_back(static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10)));
  }
  closedir(processes);
  return children;
}

void reap_orphans(const std::function<bool(pid_t)>& keep) {
  for (;;) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0 || keep(info.si_pid))
      return;
    waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG);
  }
}

}  // namespace muster::agent
