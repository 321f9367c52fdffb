// The options of a sweep, from the flags of `launch sweep run` or its file; and where its trials run.
//
// Pure. Every error is one line: the flag, the value, and what would be right.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/settings/options.h"
#include "launcher/core/sweep/sweep.h"

namespace muster::launcher::sweep {

struct SweepOptions {
  SweepSettings settings;
  std::int32_t retries = 0;                // of each trial, after failures that are its own
  std::optional<std::int32_t> parallel{};  // nullopt: as many as fit; 0: other programs run the trials
  std::int32_t nodes_per_trial = 1;
  std::int32_t gpus_per_trial = 1;
  std::optional<Duration> time_budget{};
  std::optional<Duration> step_time{};  // for a preview
  std::string directory;                // absolute, or empty: not given
};

// `space`: the members `space` and `constraints` of a sweep's file, or an empty object. `program`: the
// placeholders in its arguments must be known (program_of()).
Expected<SweepOptions> make_sweep_options(const Settings& settings, const nlohmann::ordered_json& space,
                                          const std::vector<std::string>& program, const Surroundings& here);

// program_of() returns the program's arguments with the trial's values. variables_of() returns its variables:
// MUSTER_PARAM_NAME and those of the trial. {trial}, {trial_dir} and {seed} are placeholders, too. If an
// argument is only the placeholder of a parameter without a value, the argument and the flag before it are
// left out.
struct TrialPlace {
  std::int32_t trial = 0;
  std::string directory;   // of the trial
  std::uint64_t seed = 0;  // of the trial: from the sweep's
};
Expected<std::vector<std::string>> program_of(const std::vector<std::string>& program, const Space& space,
                                              const Point& point, const TrialPlace& place);
std::map<std::string, std::string> variables_of(const Point& point, const TrialPlace& place);
// Returns the names of the parameters whose placeholder is in no argument, in the space's order.
std::vector<std::string> parameters_outside(const std::vector<std::string>& program, const Space& space);
// Returns the trial's seed: SplitMix64 of the sweep's seed and the trial's number.
std::uint64_t trial_seed(std::uint64_t sweep_seed, std::int32_t trial);

// The hosts and GPUs of one trial, and a name for people. Each slot has one berth.
struct Berth {
  std::string place;
  std::vector<Host> hosts{};         // empty: this machine
  std::vector<std::int32_t> gpus{};  // indexes among those that this process may use; empty: not assigned
  std::int32_t core_count = 0;       // cores for the trial on each of its nodes; 0: unknown, on another host
};
// berths_of() returns as many berths as `options` asks for (not 0), or as fit. It is an error if not even one
// fits.
struct Room {
  std::vector<Host> hosts;  // of the job; empty: this machine
  std::int32_t core_count = 1;
  std::int32_t gpu_count = 0;
};
Expected<std::vector<Berth>> berths_of(const SweepOptions& options, const Room& room);

}  // namespace muster::launcher::sweep
