/* An MPI program of the tests: mpi_program DEED [RANK [ARGUMENT]]. One source for every MPI library.
   world: sums and passes on round a ring, and says what it sees. hang: five steps, of which all ranks tell the
   agent; then RANK does not come to the next one. late (Open MPI's only): the others give up a fence of PMIx's
   to which RANK does not come; then all meet in another one. segment: each rank has a file in /dev/shm from before
   MPI_Init, as ranks of MPICH 5 and of PSM3 have; then RANK is killed. Other deeds are RANK's, while the others wait in a barrier.
   With `once` as the argument, in the first attempt only. */
#include <mpi.h>
#ifdef OPEN_MPI
#include <dlfcn.h>
#include <pmix.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* As docs/mpi.md shows it. */
static void tell_step(int step) {
  static int agent = -1;
  const char* path = getenv("MUSTER_SOCKET");
  if (path == NULL) return;
  if (agent < 0) agent = socket(AF_UNIX, SOCK_DGRAM, 0);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  char text[256];
  const int size = snprintf(text, sizeof text, "{\"v\":1,\"type\":\"step\",\"step\":%d,\"rank\":%s,\"attempt\":%s,\"pid\":%d}",
                            step, getenv("RANK"), getenv("MUSTER_ATTEMPT"), getpid());
  sendto(agent, text, size, MSG_DONTWAIT, (struct sockaddr*)&address, sizeof address);
}

__attribute__((noinline)) static void stay_away(void) {
  while (1) usleep(10000);
}

static void hang(int here) {
  for (int step = 1; step <= 5; ++step) {
    MPI_Barrier(MPI_COMM_WORLD);
    tell_step(step);
  }
  if (here) stay_away();
}

static int world(int rank, int size) {
  int sum = 0, passed = -1;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 7, &passed, 1, MPI_INT, (rank + size - 1) % size, 7,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Comm node;
  int of_node = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &of_node);
  const char* told = getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : getenv("PMI_RANK");
  printf("rank %d of %d, sum %d, from %d, %d on this node, RANK %s, told %s\n", rank, size, sum, passed, of_node,
         getenv("RANK"), told ? told : "nothing");
  return 0;
}

/* Rank 0 publishes a name, which the last rank looks up; then both talk. */
static int names(int rank, int size) {
  char port[MPI_MAX_PORT_NAME] = "";
  MPI_Comm other;
  int got = -1;
  if (rank == 0) {
    MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Publish_name("here", MPI_INFO_NULL, port);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
  } else if (rank == size - 1) {
    MPI_Lookup_name("here", MPI_INFO_NULL, port);
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
  } else {
    return 0;
  }
  MPI_Sendrecv(&rank, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, other, MPI_STATUS_IGNORE);
  printf("rank %d met %d\n", rank, got);
  return MPI_Comm_disconnect(&other);
}

#ifdef OPEN_MPI
/* By the library that Open MPI has loaded. */
static void fence(int rank, const char* which, int seconds) {
  void* library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_NOLOAD);
  pmix_status_t (*meet)(const pmix_proc_t*, size_t, const pmix_info_t*, size_t) =
      library ? (pmix_status_t(*)(const pmix_proc_t*, size_t, const pmix_info_t*, size_t))dlsym(library, "PMIx_Fence") : NULL;
  pmix_info_t limit;
  memset(&limit, 0, sizeof limit);
  strncpy(limit.key, PMIX_TIMEOUT, PMIX_MAX_KEYLEN);
  limit.value.type = PMIX_INT;
  limit.value.data.integer = seconds;
  const int met = meet && meet(NULL, 0, &limit, seconds > 0 ? 1 : 0) == PMIX_SUCCESS;
  printf("rank %d: %s fence %s\n", rank, which, met ? "met" : "given up");
  fflush(stdout);
}

static void come_late(int rank, int size, int late) {
  int token = 0;
  if (rank != late) {
    fence(rank, "first", 1);
    MPI_Send(&token, 1, MPI_INT, late, 3, MPI_COMM_WORLD);
  } else {
    for (int others = 1; others < size; ++others)
      MPI_Recv(&token, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  fence(rank, "second", 0);
}
#endif

static void make_segment(void) {
  char path[300];
  snprintf(path, sizeof path, "/dev/shm/psm3_shm.%s.%s", getenv("MUSTER_JOB_ID"), getenv("RANK"));
  const int file = open(path, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, 4096) != 0 || mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED) exit(9);
  close(file);
}

static void do_deed(const char* deed, const char* argument) {
  if (strcmp(deed, "kill") == 0 || strcmp(deed, "segment") == 0) kill(getpid(), SIGKILL);
  if (strcmp(deed, "stop") == 0) kill(getpid(), SIGSTOP);
  if (strcmp(deed, "abort") == 0) {
    MPI_Abort(MPI_COMM_WORLD, argument ? atoi(argument) : 7);
    stay_away(); /* for ever, if that returns */
  }
  if (strcmp(deed, "leave") == 0) _exit(0);
  if (strcmp(deed, "spawn") == 0) {
    MPI_Comm child;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int answer = MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child,
                                MPI_ERRCODES_IGNORE);
    printf("spawn %s\n", answer == MPI_SUCCESS ? "succeeded" : "was refused");
  }
  if (strcmp(deed, "read") == 0) {
    char line[100] = "";
    if (fgets(line, sizeof line, stdin) == NULL) strcpy(line, "nothing\n");
    printf("read %s", line);
  }
}

int main(int argc, char** argv) {
  int rank, size;
  if (argc > 1 && strcmp(argv[1], "segment") == 0) make_segment();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char* deed = argc > 1 ? argv[1] : "world";
  const char* argument = argc > 3 ? argv[3] : NULL;
  const char* restarts = getenv("TORCHELASTIC_RESTART_COUNT");
  const int over = argument && strcmp(argument, "once") == 0 && restarts && atoi(restarts) > 0;
  int failed = 0;
  if (strcmp(deed, "world") == 0) failed = world(rank, size);
  if (strcmp(deed, "names") == 0) failed = names(rank, size);
#ifdef OPEN_MPI
  if (strcmp(deed, "late") == 0) come_late(rank, size, atoi(argv[2]));
#endif
  if (strcmp(deed, "hang") == 0) hang(rank == atoi(argv[2]) && !over);
  MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(deed, "wait") == 0) {
    puts("waiting");
    fflush(stdout);
    pause();
  }
  if (argc > 2 && rank == atoi(argv[2]) && !over) do_deed(deed, over ? NULL : argument);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return failed;
}
