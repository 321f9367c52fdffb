#include "agent/io/workers/children.h"

#include <sys/wait.h>

namespace muster::agent {

void reap_orphans(const std::function<bool(pid_t)>& keep) {
  for (;;) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0 || keep(info.si_pid))
      return;
    waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG);
  }
}

}  // namespace muster::agent
