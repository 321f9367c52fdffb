// The stamps of the benchmark's ranks: lines "WHAT AGAIN PID NANOSECONDS", appended to one file.
//
// WHAT is M when the rank has started, and T when it gets SIGTERM. AGAIN is 1 after the kill, when the file
// "<stamps>.killed" exists. State is process-wide, because a signal handler uses it.
#pragma once

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

namespace muster::bench {

struct Stamps {
  int file = -1;
  bool again = false;
};
inline Stamps stamps;

inline bool open_stamps(const char* path) {
  stamps.file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  char killed[4096];
  std::snprintf(killed, sizeof killed, "%s.killed", path);
  stamps.again = access(killed, F_OK) == 0;
  return stamps.file >= 0;
}

inline bool is_again() {
  return stamps.again;
}

inline bool stamp(char what) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  char line[64];
  const int size = std::snprintf(line, sizeof line, "%c %d %d %lld\n", what, stamps.again ? 1 : 0, getpid(),
                                 static_cast<long long>(now.tv_sec) * 1000000000 + now.tv_nsec);
  return write(stamps.file, line, static_cast<size_t>(size)) == size;
}

inline void stamp_when_told_to_stop() {
  std::signal(SIGTERM, [](int) {
    stamp('T');
    _exit(128 + SIGTERM);
  });
}

}  // namespace muster::bench
