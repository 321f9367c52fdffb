// sweep_checker DIR: judges a sweep that is over, by its journal alone.
//
// Prints a line for each fault and exits with 1, or prints a summary.
#include <fmt/format.h>

#include "launcher/commands/sweep.h"
#include "tests/sweep_judge.h"

namespace muster::launcher::sweep {
namespace {

int judge(const std::string& directory) {
  const auto sweep = view_sweep(directory, look_around());
  if (!sweep) return refuse(sweep.error(), 1);
  SweepJudge judge(sweep->options.settings, sweep->options.retries, sweep->options.parallel.value_or(0));
  for (const Event& event : sweep->events) judge.hear(event);
  judge.hear_end();
  for (const std::string& fault : judge.faults()) fmt::print("{}\n", fault);
  if (!judge.faults().empty()) return 1;
  fmt::print("{}\n", judge.summary());
  return 0;
}

}  // namespace
}  // namespace muster::launcher::sweep

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: sweep_checker DIR\n");
    return 2;
  }
  return muster::launcher::sweep::judge(argv[1]);
}
