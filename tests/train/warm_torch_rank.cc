// A rank that uses torch before and after init(): `warm_torch_rank [seed] [parallel]`. Prints its random
// numbers, its number of threads and the sum of a parallel region. Fails once, so that there are two
// attempts.
#include <ATen/Parallel.h>
#include <cstdio>
#include <muster/comm/job.h>
#include <string_view>
#include <torch/torch.h>

namespace {

double parallel_sum() {
  return torch::ones({1000, 1000}).exp().sum().item<double>();
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i] == std::string_view("seed")) torch::manual_seed(42);
    if (argv[i] == std::string_view("parallel")) parallel_sum();
  }
  const muster::Job job = muster::init();
  std::printf("draw %.9g\nthreads %d\nsum %.17g\n", torch::rand(1).item<float>(), at::get_num_threads(),
              parallel_sum());
  std::fflush(stdout);
  job.barrier();
  return job.restart_count() == 0 && job.rank() == 1 ? 3 : 0;
}
