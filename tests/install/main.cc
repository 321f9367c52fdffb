#include <cstdio>
#include <muster/muster.h>

int main() {
  const muster::Job job = muster::init();
  muster::seed_everything(1);
  job.barrier();
  std::printf("rank %d of %d\n", job.rank(), job.world_size());
  return job.world_size() == 1 ? 0 : 1;
}
