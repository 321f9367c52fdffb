// Splits a sequence of layers into the stages of a schedule: decides where each stage begins.
//
// Splits evenly by number of layers, by parameters, or by measured time. Keeps each rank within a memory
// limit: the schedule says how many microbatches' activations a rank holds at once. The functions only
// calculate with measured or estimated costs.
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
  // `activation_bytes`: what one microbatch keeps from the layer's forward to its backward, including the
  // layer's output. `input_bytes`: the size of the layer's input for one microbatch. It counts only for the
  // first layer of a stage, because elsewhere the input is the output of the layer before.
  std::int64_t activation_bytes = 0;
  std::int64_t input_bytes = 0;
};

enum class PartitionBy { kUniform, kParameters, kProfile };
// Accepts "uniform", "parameters" and "profile".
std::optional<PartitionBy> find_partition_name(std::string_view name);

struct PartitionLimits {
  std::optional<std::int64_t> memory_bytes;  // per rank; nothing: unlimited
  // The memory for parameters, gradients and optimizer state, as a multiple of the parameters' memory. With
  // Adam: 1 + 1 + 2.
  double parameter_copies = 4;
};

// The first layer of each stage.
using Partition = std::vector<int>;

// Splits the layers within the limits:
// - kUniform: the numbers of layers differ by at most one;
// - kParameters: the stage with the most parameters has as few as possible;
// - kProfile: the slowest stage takes as little time as possible.
// If several splits are equally good, returns the one with the least sum of squares. The result is optimal,
// with one exception: many layers (more than about 16 in 4 stages) with a memory limit and several stages per
// rank. In that case it is the best of the candidates tried. kInvalidArgument: there are fewer layers than
// stages, or the memory is too small. The message names the least memory that suffices.
Expected<Partition> partition_layers(PartitionBy by, std::span<const LayerCost> layers,
                                     const Schedule& schedule, const PartitionLimits& limits = {});

// Returns the split whose simulated makespan is the shortest found. It is never longer than that of kProfile.
// Starts from the splits by kProfile and by kUniform. Moves layers across one boundary, or two adjacent ones,
// as long as that shortens the makespan and memory suffices.
Expected<Partition> shortest_partition(std::span<const LayerCost> layers, const Schedule& schedule,
                                       const PartitionLimits& limits = {});

// Checks a split that was made by hand. kInvalidArgument says what is wrong.
Status check_partition(const Partition& partition, int layers, int stages);

// With this split, times_of_stages() returns the times of each stage, and memory_of_ranks() the most bytes
// that each rank needs.
std::vector<StageTimes> times_of_stages(std::span<const LayerCost> layers, const Partition& partition);
std::vector<double> memory_of_ranks(std::span<const LayerCost> layers, const Partition& partition,
                                    const Schedule& schedule, double parameter_copies);

}  // namespace muster
