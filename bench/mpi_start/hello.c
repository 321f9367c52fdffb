/* A rank of an MPI program: hello FILE. Sums the ranks, to check that all are in one world, and appends to FILE the time at which
   MPI_Init returned, and the size of the world. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char** argv) {
  struct timespec now;
  int rank = 0, size = 0, sum = 0;
  MPI_Init(&argc, &argv);
  clock_gettime(CLOCK_MONOTONIC, &now);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  char line[64];
  const int length =
      snprintf(line, sizeof line, "%lld %d\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec, size);
  const int fd = argc > 1 ? open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
  const int written = fd >= 0 && write(fd, line, (size_t)length) == length;
  MPI_Finalize();
  return written && sum == size * (size - 1) / 2 ? 0 : 1;
}
