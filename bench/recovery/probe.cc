// A plain rank that obeys TERM: appends to the file named by its argument when it came to main and when it
// was told to stop. The first attempt then waits for its end, later ones are done at once.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

namespace {

int file = -1;
char place[32];  // "RESTART_COUNT RANK PID"

bool stamp(char what) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  char line[64];
  const int size = std::snprintf(line, sizeof line, "%c %s %lld\n", what, place,
                                 static_cast<long long>(now.tv_sec) * 1000000000 + now.tv_nsec);
  return write(file, line, static_cast<size_t>(size)) == size;
}

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "0" : value;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  file = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  const char* restart_count = variable("TORCHELASTIC_RESTART_COUNT");
  std::snprintf(place, sizeof place, "%s %s %d", restart_count, variable("RANK"), getpid());
  std::signal(SIGTERM, [](int) {
    stamp('T');
    _exit(128 + SIGTERM);
  });
  if (!stamp('M')) return 1;
  if (std::strcmp(restart_count, "0") != 0) return 0;
  for (;;) pause();
}
