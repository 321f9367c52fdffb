// Two pairs of ranks, each of which adds up by itself, step by step. In the first attempt rank 3 is killed,
// and the launcher has to wait until rank 2 has said what it knows of that.
#include <csignal>
#include <cstdio>
#include <muster/muster.h>

int main() {
  const muster::Job job = muster::init();
  const muster::Group left = job.new_group({0, 1}, {.name = "left"});
  const muster::Group right = job.new_group({2, 3}, {.name = "right"});
  const muster::Group& mine = left.is_member() ? left : right;
  const bool first = job.restart_count() == 0;
  if (first && job.rank() == 2) std::signal(SIGTERM, SIG_IGN);
  for (int step = 0; step < 20; ++step) {
    if (first && job.rank() == 3 && step == 10) std::raise(SIGKILL);
    const at::Tensor sum = at::full({1}, job.rank());
    muster::all_reduce(mine, sum);
    if (sum.item<int>() != (left.is_member() ? 1 : 5)) return 1;
    muster::step(step);
  }
  std::printf("rank %d has added up in %s\n", job.rank(), mine.description().c_str());
}
