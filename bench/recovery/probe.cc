// A plain rank that obeys TERM: appends to the file named by its argument when it came to main and when it
// was told to stop. The first attempt then waits for its end, later ones are done at once.
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

namespace {

int file = -1;
char place[32];  // "0|1 PID": 1 is after the kill

bool stamp(char what) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  char line[64];
  const int size = std::snprintf(line, sizeof line, "%c %s %lld\n", what, place,
                                 static_cast<long long>(now.tv_sec) * 1000000000 + now.tv_nsec);
  return write(file, line, static_cast<size_t>(size)) == size;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  file = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  char killed[4096];
  std::snprintf(killed, sizeof killed, "%s.killed", argv[1]);
  const bool again = access(killed, F_OK) == 0;
  std::snprintf(place, sizeof place, "%d %d", again ? 1 : 0, getpid());
  std::signal(SIGTERM, [](int) {
    stamp('T');
    _exit(128 + SIGTERM);
  });
  if (!stamp('M')) return 1;
  if (again) return 0;
  for (;;) pause();
}
