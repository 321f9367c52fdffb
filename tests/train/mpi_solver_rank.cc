// A rank of a program that uses MPI itself, and trains over groups of all backends in the same world.
//
// mpi_solver_rank STORE: starts MPI with MPI_THREAD_MULTIPLE, and sums over MPI_COMM_WORLD while its groups
// work. mpi_solver_rank STORE single: starts MPI without MPI_THREAD_MULTIPLE.
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <muster/muster.h>

#include "tests/require.h"

namespace {

void solve_and_train(const muster::Job& job) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  muster::require_equal(job.rank(), rank, "the rank");
  muster::require_equal(job.world_size(), size, "the size of the world");
  const muster::Group over_gloo = job.new_group(job.world().ranks(), {.backend = "gloo"});
  for (int step = 0; step < 50; ++step) {
    std::vector<at::Tensor> tensors{at::full({2}, rank + step)};
    // Runs while the group's thread makes calls of its own.
    const auto work = job.process_group()->allreduce(tensors);
    const int mine = rank + step;
    int sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    work->wait();
    muster::require_equal(tensors[0][1].item<int>(), sum, "the sums of solver and training");
    muster::require_equal(muster::all_reduce(over_gloo, mine), sum, "the sums of solver and Gloo");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  int level = 0;
  MPI_Init_thread(&argc, &argv, argc > 2 ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
  try {
    torch::set_num_threads(1);
    const muster::Job job = muster::init({.init_method = std::string("file://") + argv[1],
                                          .rank = std::atoi(std::getenv("OMPI_COMM_WORLD_RANK")),
                                          .world_size = std::atoi(std::getenv("OMPI_COMM_WORLD_SIZE")),
                                          .backend = "mpi"});
    solve_and_train(job);
    std::printf("rank %d is done\n", job.rank());
  } catch (const std::exception& error) {
    std::printf("error: %s\n", error.what());
    std::fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return MPI_Finalize();
}
