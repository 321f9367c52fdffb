// Process groups over MPI compared with Gloo's: runs the checks of mpi_rank in worlds of two to five ranks.
#include <cstdio>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>

#include "tests/scratch_directory.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string output;
};

Outcome run_command(const std::string& command) {
  Outcome outcome;
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  char part[4096];
  while (const std::size_t size = fread(part, 1, sizeof part, pipe)) outcome.output.append(part, size);
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

// Runs them in a world of `count` ranks.
Outcome run_ranks(int count, const std::string& program, const std::string& what,
                  const std::string& flags = "") {
  const ScratchDirectory scratch;
  return run_command("OMP_NUM_THREADS=1 timeout -k 5 70 mpirun.openmpi --oversubscribe --allow-run-as-root " +
                     flags + " -n " + std::to_string(count) + " " + program + " " + scratch / "store" + " " +
                     what);
}

void expect_done(const Outcome& outcome, int count) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  for (int rank = 0; rank < count; ++rank)
    EXPECT_THAT(outcome.output, HasSubstr("rank " + std::to_string(rank) + " is done"));
}

class MpiWorlds : public testing::TestWithParam<int> {};

TEST_P(MpiWorlds, HaveGlooResultsInAllCollectives) {
  const Outcome outcome = run_ranks(GetParam(), MPI_RANK, "compare");
  expect_done(outcome, GetParam());
  // On busy processors, more ranks might not all arrive within the backend's limit.
  if (GetParam() > 2) return;
  for (int rank = 0; rank < GetParam(); ++rank)
    EXPECT_THAT(outcome.output, HasSubstr("rank " + std::to_string(rank) + " has finalized MPI"));
}
INSTANTIATE_TEST_SUITE_P(OfRanks, MpiWorlds, testing::Values(2, 3, 4, 5));

TEST(MpiBackend, KeepsCollectivesAndMessagesOfSeveralGroupsApart) {
  expect_done(run_ranks(4, MPI_RANK, "mixed 20"), 4);
}

TEST(MpiBackend, MovesLargeTensorsAndMessagesBetweenTheirPieces) {
  expect_done(run_ranks(2, MPI_RANK, "large"), 2);
}

TEST(MpiBackend, NamesTheMissingRankAtTheTimeout) {
  const Outcome outcome = run_ranks(3, MPI_RANK, "missing");
  for (const int rank : {0, 1, 2})
    EXPECT_THAT(outcome.output, HasSubstr("rank " + std::to_string(rank) + " is done"));
}

#ifdef LAUNCH_PROGRAM
TEST(MpiBackend, EndsWellUnderLaunchAfterAbandonedGroups) {
  const ScratchDirectory scratch;
  expect_done(run_command(std::string("OMP_NUM_THREADS=1 timeout -k 5 70 ") + LAUNCH_PROGRAM +
                          " --gpus-per-node 3 --device cpu --max-restarts 0 --mpi pmix --log-dir " +
                          scratch / "logs" + " " + MPI_RANK + " " + scratch / "store" + " missing"),
              3);
}
#endif

TEST(MpiBackend, NamesTheKilledRank) {
  for (const std::string count : {"1000", "65536"}) {
    const Outcome outcome = run_ranks(3, MPI_RANK, "killed " + count, "--enable-recovery");
    EXPECT_THAT(outcome.output, HasSubstr("error: mpi: all_reduce of Float [" + count +
                                          "] has not ended within 1000 ms: rank 2 does not wait in it"));
  }
}

TEST(MpiBackend, TrainsOnTwoRanksAsGlooDoesToTheLastBit) {
  expect_done(run_ranks(2, MPI_RANK, "train"), 2);
  expect_done(run_ranks(3, MPI_RANK, "train"), 3);
}

TEST(MpiBackend, CoexistsWithAProgramThatUsesMpiItself) {
  expect_done(run_ranks(2, MPI_SOLVER_RANK, ""), 2);
  EXPECT_THAT(run_ranks(2, MPI_SOLVER_RANK, "single").output,
              HasSubstr("error: backend 'mpi': the program has started MPI without MPI_THREAD_MULTIPLE"));
}

TEST(MpiBackend, ReportsAWorldThatIsNotTheJob) {
  const ScratchDirectory scratch;
  const Outcome outcome = run_command("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 " MPI_RANK " " +
                                      scratch / "store" + " train");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("error: backend 'mpi': MPI_COMM_WORLD is not the job: "
                                        "this is rank 0 of 1 there, but rank 1 of 2 in the job; "
                                        "start the job with launch --mpi pmix"));
}

}  // namespace
}  // namespace muster
