// A row of layers, cut into the stages of a schedule: where each stage begins.
//
// Evenly by number, by parameters, or by measured time, so that the slowest stage is as fast as can be; under
// a limit of memory, for which the schedule says how many microbatches' activations a rank holds at once.
// Pure arithmetic on what was measured or is guessed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/pipeline/schedule.h"
#include "common/pipeline/simulated_schedule.h"

namespace muster {

struct LayerCost {
  StageTimes times{0, 0, 0};  // of a microbatch
  std::int64_t parameter_bytes = 0;
  // Of a microbatch: what is kept from its forward to its backward, its output included; and what it takes,
  // which counts where a stage begins, and is the output of the layer before elsewhere.
  std::int64_t activation_bytes = 0;
  std::int64_t input_bytes = 0;
};

enum class PartitionBy { kUniform, kParameters, kProfile };
// "uniform", "parameters", "profile".
std::optional<PartitionBy> find_partition_name(std::string_view name);

struct PartitionLimits {
  std::optional<std::int64_t> memory_bytes;  // of a rank; nothing: any
  // How often parameters are there: themselves, their gradients, and the optimizer's state, which is twice as
  // much for Adam.
  double parameter_copies = 4;
};

// The first layer of each stage.
using Partition = std::vector<int>;

// kUniform: numbers of layers differ by one at most. kParameters, kProfile: the stage with the most
// parameters has as few, the slowest takes as little time, as is possible in the limits; of several such cuts
// the one with the least sum of squares. Exact; where a limit of memory binds several stages of a rank to
// each other, exact for few layers (16 in 4 stages), and else the best of what is most promising.
// kInvalidArgument: there are fewer layers than stages, or memory does not suffice, with the least that
// would.
Expected<Partition> partition_layers(PartitionBy by, std::span<const LayerCost> layers,
                                     const Schedule& schedule, const PartitionLimits& limits = {});

// The one by kProfile, or one whose makespan is shorter, as the simulator has it: that depends on where the
// slow stages are, and on how long their forward and backward take. From the cuts by kProfile and by kUniform
// layers are moved over one cut or two neighbouring ones, as long as that helps and memory suffices.
Expected<Partition> shortest_partition(std::span<const LayerCost> layers, const Schedule& schedule,
                                       const PartitionLimits& limits = {});

// One that was made by hand. kInvalidArgument says what is wrong.
Status check_partition(const Partition& partition, int layers, int stages);

// What becomes of it, by stage and by rank.
std::vector<StageTimes> times_of_stages(std::span<const LayerCost> layers, const Partition& partition);
std::vector<double> memory_of_ranks(std::span<const LayerCost> layers, const Partition& partition,
                                    const Schedule& schedule, double parameter_copies);

}  // namespace muster
