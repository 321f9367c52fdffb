#include <cstdio>
#include <muster/muster.h>

int main(int argc, char**) {
  const muster::Job job = muster::init();
  muster::seed_everything(1);
  job.barrier();
  std::printf("rank %d of %d\n", job.rank(), job.world_size());
  const int expected = argc > 1 ? 2 : 1;
  return job.world_size() == expected ? 0 : 1;
}
