// Sweeps on virtual time: searchers, schedulers and the decisions of a sweep, with programs that fail, nodes
// that are lost, and controllers that are killed. All follows from one seed.
//
// A trial's program saves in each step, and may lose its newest checkpoints when it fails. Its reports stay
// when the controller is killed, and the program may do a few more steps then, which nobody hears until the
// next controller comes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::simulation {

enum class SweepFault {
  kProgramFails,
  kOutOfMemory,
  kNodeLost,
  kValueNotFinite,  // NaN
  kNoMetric,        // the program reports something else
  kControllerKilled,
  kUnheardSteps,  // of a program whose controller is gone
  kLateSteps,     // of a program that was told to end
};
inline constexpr std::size_t kSweepFaultCount = 8;
std::string_view name_of(SweepFault fault);

struct SweepSeedResult {
  std::uint64_t seed = 0;
  std::vector<std::string> failures;  // one line each
  std::array<int, kSweepFaultCount> faults{};
  std::uint64_t event_count = 0;
  std::string summary;  // how the trials ended
};

// Runs the sweep of a seed until it is over, and judges it (tests/sweep_judge.h). The values that a trial has
// reported since it last took over another one must belong to its parameters. A sweep with one slot, whose
// only fault is that its controller is killed, is also compared with the same sweep without a fault. `trace`
// gets a line for each event.
SweepSeedResult run_sweep_seed(std::uint64_t seed, const std::function<void(const std::string&)>& trace = {});

}  // namespace muster::simulation
