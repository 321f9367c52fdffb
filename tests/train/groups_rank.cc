// Groups of ranks that each make all-reduces, step by step:
//
//   groups_rank killed       pairs; in the first attempt rank 3 is killed, and the launcher must wait for
//                            rank 2's report about that
//   groups_rank hangs        pairs; rank 3 stops in the middle, and the other group continues for ever
//   groups_rank slow FILE    a group of three ranks, and a group of two that take three times as long, rank 4
//                            still longer; ends when FILE exists
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <muster/muster.h>
#include <numeric>
#include <string_view>
#include <thread>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;

std::chrono::milliseconds work_of(int rank) {
  if (rank < 3) return 12ms;
  return rank == 3 ? 36ms : 90ms;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  const bool slow = what == "slow" && argc > 2;
  const muster::Job job = muster::init();
  const int first_of_right = slow ? 3 : 2;
  std::vector<int> ranks(static_cast<std::size_t>(job.world_size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const muster::Group left = job.new_group({ranks.begin(), ranks.begin() + first_of_right}, {.name = "left"});
  const muster::Group right = job.new_group({ranks.begin() + first_of_right, ranks.end()}, {.name = "right"});
  const muster::Group& mine = left.is_member() ? left : right;
  const int expected = std::accumulate(mine.ranks().begin(), mine.ranks().end(), 0);
  const bool killed = what == "killed" && job.restart_count() == 0;
  if (killed && job.rank() == 2) std::signal(SIGTERM, SIG_IGN);
  bool ends = false;
  for (int step = 0; !ends; ++step) {
    if (killed && job.rank() == 3 && step == 10) std::raise(SIGKILL);
    while (what == "hangs" && job.rank() == 3 && step == 10) pause();  // a dump of stacks interrupts it
    if (slow) std::this_thread::sleep_for(work_of(job.rank()));
    const at::Tensor sum = at::full({1}, job.rank());
    muster::all_reduce(mine, sum);
    if (sum.item<int>() != expected) return 1;
    muster::step(step);
    if (what == "killed") ends = step == 20;
    if (slow) ends = muster::all_reduce(mine, std::filesystem::exists(argv[2]), muster::ReduceOp::kMax);
  }
  std::printf("rank %d has added up in %s\n", job.rank(), mine.description().c_str());
}
