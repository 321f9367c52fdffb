// Where a model is cut into the stages of a pipeline: measured, decided, shown.
//
//   const auto profile = muster::profile_layers(layers, {images}, job);  // of one microbatch
//   const auto split = muster::split_layers(profile, {.ranks = 4, .microbatches = 16});
//   if (job.rank() == 0) std::fputs(split.table().c_str(), stdout);
//   auto stage = layers.stage(split.first_layers, job.rank(), job);
//
// Times are seconds; what the schedule makes of them is computed, and not measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace at {
class Tensor;
}

namespace muster {

class Group;
class PipelineLayers;

struct LayerProfile {
  std::string name;
  std::int64_t parameters = 0;  // their number
  std::int64_t parameter_bytes = 0;
  // Of one microbatch; 0 where none was given.
  double forward = 0;
  // Backward: the gradient of its input, which the stage before waits for, and those of its weights, as far
  // as they can be computed later; the others are in `input`.
  double input = 0;
  double weight = 0;
  // What is allocated in forward and still there behind it: what is kept for backward, and the output.
  std::int64_t activation_bytes = 0;
  std::int64_t input_bytes = 0;
  std::vector<std::vector<std::int64_t>> output_shapes{};
  bool separable = true;  // the gradients of all its weights can be computed later
};

struct ProfileOptions {
  int repetitions = 10;  // of which the medians are taken
};

// Makes one layer after the other, on the device of the microbatch, and throws away those that a function
// made: never are two of them there at once. Layers that were added as modules are as before afterwards, with
// their buffers and gradients, and so are torch's random numbers; in training mode, if they are. Without a
// microbatch nothing runs. std::invalid_argument names the layer that does not take what the one before it
// gives.
std::vector<LayerProfile> profile_layers(const PipelineLayers& layers,
                                         const std::vector<at::Tensor>& microbatch,
                                         const ProfileOptions& options = {});
// All ranks measure at once, as they will compute, but those without a microbatch; the first must have one.
// Times are means over them, all else is the first rank's, and all have the same, so that they cut alike.
// Collective: all throw what one of them throws.
std::vector<LayerProfile> profile_layers(const PipelineLayers& layers,
                                         const std::vector<at::Tensor>& microbatch, const Group& group,
                                         const ProfileOptions& options = {});

struct SplitOptions {
  int ranks = 1;
  int microbatches = 1;
  std::string schedule = "1F1B";  // by the names of `launch schedule`
  std::optional<int> chunks{};    // stages a rank; none: as many as the schedule is for
  // "uniform": numbers of layers differ by one at most. "parameters": the stage with the most has as few as
  // possible. "profile": the slowest stage is as fast as possible, but for moves that make the step shorter.
  std::string by = "profile";
  std::vector<int> first_layers{};  // of all stages, by hand: then `by` means nothing
  // That a rank has for parameters and activations, as many as the schedule holds at once; none: any.
  std::optional<std::int64_t> memory_bytes{};
  // The parameters themselves, their gradients, and the optimizer's state of them: 4 for Adam, 3 for SGD with
  // momentum, 2 for plain SGD.
  double parameter_copies = 4;
};

struct StageSplit {
  int rank = 0;
  int first_layer = 0;
  std::vector<std::string> layers{};
  std::int64_t parameters = 0;
  std::int64_t parameter_bytes = 0;
  double forward = 0, input = 0, weight = 0;  // of one microbatch
  std::int64_t activation_bytes = 0;          // of one microbatch
};

struct PipelineSplit {
  std::string schedule;
  int microbatches = 0;
  std::vector<int> first_layers{};
  std::vector<StageSplit> stages{};
  // At most: parameters as often as they are there, and activations.
  std::vector<std::int64_t> rank_memory_bytes{};
  double step = 0;  // without communication and optimizer
  double bubble_fraction = 0;
  std::vector<std::string> not_separable{};

  std::string table() const;
  std::string json() const;
};

// The same on every rank that has the same profile. std::invalid_argument: one line that says what cannot be.
PipelineSplit split_layers(const std::vector<LayerProfile>& profile, const SplitOptions& options);

}  // namespace muster
