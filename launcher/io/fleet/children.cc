#include "launcher/io/fleet/children.h"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/process.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

bool has_children() {
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

}  // namespace

std::vector<ChildEnd> reap_children() {
  std::vector<ChildEnd> ends;
  int status = 0;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
    ends.push_back({pid, WIFSIGNALED(status) ? fmt::format("was killed by {}", signal_name(WTERMSIG(status)))
                                             : fmt::format("exited with code {}", WEXITSTATUS(status))});
  }
  return ends;
}

std::vector<pid_t> leftover_children(const Marks& marks, const std::set<pid_t>& known) {
  std::vector<pid_t> leftovers;
  if (!has_children()) return leftovers;  // the usual case at a job's end: do not read /proc
  leftovers = list_children().value_or(leftovers);
  std::erase_if(leftovers, [&](pid_t pid) {
    return known.contains(pid) ||
           !(marks.sessions.contains(getsid(pid)) || was_executed_with(pid, marks.entry));
  });
  return leftovers;
}

}  // namespace muster::launcher
