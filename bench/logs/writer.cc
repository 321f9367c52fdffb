// A rank that prints numbered lines, "#RANK NUMBER xxx...", as fast as it can, so that the benchmark can
// check each line. Appends its CPU seconds to a file.
//
//   logs_writer LINES buffered|lines CPU_FILE [RANK]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace {

int own_rank(int argc, char** argv) {
  if (argc > 4) return std::atoi(argv[4]);
  constexpr const char* kNames[] = {"OMPI_COMM_WORLD_RANK", "RANK"};
  for (const char* name : kNames) {
    if (const char* value = std::getenv(name)) return std::atoi(value);
  }
  return 0;
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int rank = own_rank(argc, argv);
  const int lines = std::atoi(argv[1]);
  const bool by_line = std::strcmp(argv[2], "lines") == 0;
  static char buffer[64 << 10];  // without a buffer, glibc uses 4 KiB whatever the size argument says
  std::setvbuf(stdout, buffer, by_line ? _IOLBF : _IOFBF, sizeof buffer);
  for (int i = 0; i < lines; ++i) {
    // Lines as long as a training script's: 40 to 71 characters.
    std::printf("#%d %d loss=0.%06d %.*s\n", rank, i, i, 25 + i % 32,
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
  }
  std::fflush(stdout);
  char text[32];
  const int size = std::snprintf(text, sizeof text, "%f\n", cpu_seconds());
  const int file = open(argv[3], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  return file >= 0 && write(file, text, static_cast<size_t>(size)) == size ? 0 : 1;
}
