// A trial that takes a fixed time: sleeps in each step, reports it, and appends the times of its begin and
// its end to a file. With LibTorch it begins when muster::init() has returned.
//
//   sweep_speed_probe STAMPS SECONDS STEPS VALUE
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_TORCH
#include <muster/comm/job.h>
#endif

namespace {

long long now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<long long>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

}  // namespace

int main(int argc, char** argv) {
#ifdef WITH_TORCH
  const muster::Job job = muster::init(argc, argv);
#endif
  const long long begin = now_ns();
  if (argc < 5) return 2;
  const double seconds = std::strtod(argv[2], nullptr);
  const int steps = std::atoi(argv[3]);
  for (int step = 1; step <= steps; ++step) {
    const double part = seconds / steps;
    timespec pause{static_cast<time_t>(part), 0};
    pause.tv_nsec = static_cast<long>((part - static_cast<double>(pause.tv_sec)) * 1e9);
    nanosleep(&pause, nullptr);
    std::printf("MUSTER_METRIC loss=%s step=%d\n", argv[4], step);
    std::fflush(stdout);
  }
  char line[64];
  const int size = std::snprintf(line, sizeof line, "%lld %lld\n", begin, now_ns());
  const int fd = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  return fd >= 0 && write(fd, line, static_cast<size_t>(size)) == size ? 0 : 1;
}
