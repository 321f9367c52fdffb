/* The plain MPI program of bench/collectives: plain DIRECTORY BYTES. Each rank reads the same orders from its fifo
   DIRECTORY/orders.RANK: a number of bytes, at most BYTES, and a number of calls of MPI_Iallreduce. Rank 0 writes the microseconds
   per call to the fifo DIRECTORY/answers. Ranks sleep between orders, and exit at the end of their fifos. */
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int open_fifo(const char* directory, const char* name, int mode) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  const int fd = open(path, mode);
  if (fd < 0) perror(path);
  return fd;
}

static double microseconds_of(float* numbers, int64_t bytes, int64_t calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double began = MPI_Wtime();
  for (int64_t each = 0; each < calls; ++each) {
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, numbers, (int)(bytes / (int64_t)sizeof(float)), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  return (MPI_Wtime() - began) * 1e6 / (double)calls;
}

int main(int argc, char** argv) {
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 3) return 2;
  float* numbers = calloc(1, (size_t)atoll(argv[2]) + sizeof(float));
  char name[32];
  snprintf(name, sizeof name, "orders.%d", rank);
  const int orders = open_fifo(argv[1], name, O_RDONLY);
  const int answers = rank == 0 ? open_fifo(argv[1], "answers", O_WRONLY) : -1;
  int64_t order[2];
  while (read(orders, order, sizeof order) == sizeof order) {
    const double answer = microseconds_of(numbers, order[0], order[1]);
    if (rank == 0 && write(answers, &answer, sizeof answer) != sizeof answer) return 1;
  }
  MPI_Finalize();
  return 0;
}
