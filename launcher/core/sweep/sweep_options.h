// The options of a sweep, and the places where its trials run. The options come from the flags of `launch
// sweep run`, or from the sweep's file.
//
// Pure. An error is one line. It names the flag, the value, and what would be right.
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

// Makes the options of a sweep. `space` has the members `space` and `constraints` of the sweep's file, or is
// an empty object. The arguments of `program` can contain placeholders. It is an error if program_of() does
// not know one of them.
Expected<SweepOptions> make_sweep_options(const Settings& settings, const nlohmann::ordered_json& space,
                                          const std::vector<std::string>& program, const Surroundings& here);

// The facts about one trial, for program_of() and variables_of(). program_of() returns the program's
// arguments with the trial's values. variables_of() returns the environment variables: MUSTER_PARAM_NAME for
// each parameter, and those about the trial itself. {trial}, {trial_dir} and {seed} are placeholders, too. A
// parameter may have no value in this trial. If an argument consists of that parameter's placeholder only,
// the argument and the flag before it are left out.
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

// The place of one trial: its hosts, its GPUs, and a name for people. Each slot has one.
struct Berth {
  std::string place;
  std::vector<Host> hosts{};         // empty: this machine
  std::vector<std::int32_t> gpus{};  // indexes among those that this process may use; empty: not assigned
  std::int32_t core_count = 0;       // cores for the trial on each of its nodes; 0: unknown, on another host
};
// The hosts, cores and GPUs that a sweep can use. berths_of() divides them into places, one for each trial
// that runs at the same time. If --parallel is given, its number of places is returned, and it is an error if
// they do not fit. That number must not be 0. If --parallel is not given, as many places are returned as fit,
// and it is an error if not even one fits.
struct Room {
  std::vector<Host> hosts;  // of the job; empty: this machine
  std::int32_t core_count = 1;
  std::int32_t gpu_count = 0;
};
Expected<std::vector<Berth>> berths_of(const SweepOptions& options, const Room& room);

}  // namespace muster::launcher::sweep
