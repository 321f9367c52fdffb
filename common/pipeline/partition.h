// Splits a sequence of layers into the stages of a schedule. For each stage it decides with which layer the
// stage begins.
//
// The split can be even by number of layers, by parameters, or by measured time. It keeps each rank within a
// memory limit. For that, the schedule says how many microbatches' activations a rank holds at once. The
// functions only calculate, with costs that were measured or estimated.
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
  // `activation_bytes` is the memory that one microbatch needs from the layer's forward to its backward pass.
  // It includes the layer's output. `input_bytes` is the size of the layer's input for one microbatch. It
  // counts only if the layer is the first of its stage. In any other case the input is the output of the
  // layer before.
  std::int64_t activation_bytes = 0;
  std::int64_t input_bytes = 0;
};

enum class PartitionBy { kUniform, kParameters, kProfile };
// Accepts "uniform", "parameters" and "profile".
std::optional<PartitionBy> find_partition_name(std::string_view name);

struct PartitionLimits {
  std::optional<std::int64_t> memory_bytes;  // per rank; nothing: unlimited
  // The memory for parameters, gradients and the state of the optimizer, divided by the memory of the
  // parameters alone. For Adam it is 4: the parameters once, the gradients once, and a state of two more.
  double parameter_copies = 4;
};

// The first layer of each stage.
using Partition = std::vector<int>;

// Splits the layers within the limits. `by` says which split is the best:
// - kUniform: the numbers of layers differ by at most one;
// - kParameters: the stage with the most parameters has as few as possible;
// - kProfile: the slowest stage takes as little time as possible.
//
// If several splits are equally good, returns the one with the least sum of squares. The result is optimal,
// except if there is a memory limit, a rank has several stages, and there are many layers (more than about 16
// in 4 stages). Then the result is the best of the candidates that were tried.
//
// Returns kInvalidArgument if there are fewer layers than stages, or if the memory is too small. The message
// names the least memory that would be enough.
Expected<Partition> partition_layers(PartitionBy by, std::span<const LayerCost> layers,
                                     const Schedule& schedule, const PartitionLimits& limits = {});

// Returns the best split that a search finds: the one whose simulated step takes the shortest time. Its step
// never takes longer than that of the split by kProfile. The search starts from the splits by kProfile and by
// kUniform. It moves layers across one boundary, or across two adjacent ones, as long as that makes the step
// shorter and there is enough memory.
Expected<Partition> shortest_partition(std::span<const LayerCost> layers, const Schedule& schedule,
                                       const PartitionLimits& limits = {});

// Checks a split that was made by hand. If something is wrong, returns kInvalidArgument with the reason.
Status check_partition(const Partition& partition, int layers, int stages);

// The costs of a split: times_of_stages() returns the times of each stage. memory_of_ranks() returns for each
// rank the most bytes that it needs at once.
std::vector<StageTimes> times_of_stages(std::span<const LayerCost> layers, const Partition& partition);
std::vector<double> memory_of_ranks(std::span<const LayerCost> layers, const Partition& partition,
                                    const Schedule& schedule, double parameter_copies);

}  // namespace muster
