#include "launcher/io/children.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/file.h"
#include "launcher/core/verdict.h"

namespace muster::launcher {

namespace {

// From /proc/PID/stat, "PID (NAME) STATE PPID ...": NAME may hold anything, so the last parenthesis counts. 0
// if it is gone.
pid_t parent_of(const char* pid) {
  const auto text = read_file(fmt::format("/proc/{}/stat", pid), 4096);
  if (!text) return 0;
  const std::size_t end = text->rfind(')');
  int parent = 0;
  if (end == std::string::npos || std::sscanf(text->c_str() + end + 1, " %*c %d", &parent) != 1) return 0;
  return parent;
}

bool has_children() {
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

}  // namespace

void become_subreaper() {
  CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "errno {}", errno);
}

std::vector<ChildEnd> reap_children() {
  std::vector<ChildEnd> ends;
  int status = 0;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
    ends.push_back({pid, WIFSIGNALED(status) ? fmt::format("was killed by {}", signal_name(WTERMSIG(status)))
                                             : fmt::format("exited with code {}", WEXITSTATUS(status))});
  }
  return ends;
}

std::vector<pid_t> stray_children(const std::set<pid_t>& known) {
  std::vector<pid_t> strays;
  if (!has_children()) return strays;  // spares reading /proc at the end of every job
  DIR* processes = opendir("/proc");
  if (processes == nullptr) return strays;
  while (const dirent* entry = readdir(processes)) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) == 0 ||
        parent_of(entry->d_name) != getpid())
      continue;
    const pid_t pid = std::atoi(entry->d_name);
    if (!known.contains(pid)) strays.push_back(pid);
  }
  closedir(processes);
  return strays;
}

}  // namespace muster::launcher
