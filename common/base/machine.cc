#include "common/base/machine.h"

#include <algorithm>
#include <cstdlib>
#include <sched.h>
#include <unistd.h>

namespace muster {

int count_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  // The call fails if the machine has more than 1024 processors, because a cpu_set_t has no room for more.
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

bool may_have_nvidia_driver() {
  return std::getenv("LD_LIBRARY_PATH") != nullptr || access("/dev/nvidiactl", F_OK) == 0 ||
         access("/dev/dxg", F_OK) == 0;
}

}  // namespace muster
