// Splits a row of layers into the stages of a schedule: where each stage begins.
//
// Splits evenly by number, by parameters, or by measured time, so that the slowest stage is as fast as
// possible. Keeps to a limit of memory; the schedule says how many microbatches' activations a rank holds at
// once. Pure arithmetic on measured or estimated costs.
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
  StageTimes times{0, 0, 0};  // per microbatch
  std::int64_t parameter_bytes = 0;
  // Per microbatch: the bytes kept from the layer's forward to its backward, including its output; and the
  // size of its input, which counts only where a stage begins: elsewhere it is the output of the layer
  // before.
  std::int64_t activation_bytes = 0;
  std::int64_t input_bytes = 0;
};

enum class PartitionBy { kUniform, kParameters, kProfile };
// "uniform", "parameters", "profile".
std::optional<PartitionBy> find_partition_name(std::string_view name);

struct PartitionLimits {
  std::optional<std::int64_t> memory_bytes;  // per rank; nothing: unlimited
  // How many times the memory of the parameters is needed: for themselves, their gradients, and the
  // optimizer's state, which is twice their size for Adam.
  double parameter_copies = 4;
};

// The first layer of each stage.
using Partition = std::vector<int>;

// Splits the layers within the limits:
// - kUniform: the numbers of layers differ by at most one;
// - kParameters: the stage with the most parameters has as few as possible;
// - kProfile: the slowest stage takes as little time as possible.
// If several splits are equally good, returns the one with the least sum of squares. The result is exact,
// except where a limit of memory couples several stages of a rank: then it is exact for few layers (16 in 4
// stages), otherwise the best of the most promising candidates. kInvalidArgument: there are fewer layers than
// stages, or too little memory; the message names the least that would do.
Expected<Partition> partition_layers(PartitionBy by, std::span<const LayerCost> layers,
                                     const Schedule& schedule, const PartitionLimits& limits = {});

// Returns the split by kProfile, or one with a shorter makespan in the simulator: the makespan also depends
// on where the slow stages are, and on how long forward and backward take. Starts from the splits by kProfile
// and by kUniform, and moves layers across one boundary or two adjacent ones as long as that helps and memory
// suffices.
Expected<Partition> shortest_partition(std::span<const LayerCost> layers, const Schedule& schedule,
                                       const PartitionLimits& limits = {});

// Checks a split that was made by hand. kInvalidArgument says what is wrong.
Status check_partition(const Partition& partition, int layers, int stages);

// Return the times of each stage, and the memory of each rank, with this split.
std::vector<StageTimes> times_of_stages(std::span<const LayerCost> layers, const Partition& partition);
std::vector<double> memory_of_ranks(std::span<const LayerCost> layers, const Partition& partition,
                                    const Schedule& schedule, double parameter_copies);

}  // namespace muster
