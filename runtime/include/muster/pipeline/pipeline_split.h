// Cuts a model into the stages of a pipeline: measures the layers, chooses the cut, and shows it.
//
//   const auto profile = muster::profile_layers(layers, {images}, job);  // images: one microbatch
//   const auto split = muster::split_layers(profile, {.ranks = 4, .microbatches = 16});
//   if (job.rank() == 0) std::fputs(split.table().c_str(), stdout);
//   auto stage = layers.stage(split.first_layers, job.rank(), job);
//
// Times are in seconds. The time of a step is computed from the measured layers, not measured.
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
  std::int64_t parameters = 0;  // number of values
  std::int64_t parameter_bytes = 0;
  // Times for one microbatch. They are 0 if no microbatch was measured.
  double forward = 0;
  // The two times of the backward pass. `input` is the time until the gradient of the layer's input is ready,
  // for which the previous stage waits. `weight` is the time for those gradients of weights that can be
  // computed later. The time for the gradients of all other weights is part of `input`.
  double input = 0;
  double weight = 0;
  // The bytes that the layer allocates in its forward pass and keeps: the tensors that are saved for the
  // backward pass, and the output.
  std::int64_t activation_bytes = 0;
  std::int64_t input_bytes = 0;
  std::vector<std::vector<std::int64_t>> output_shapes{};
  bool separable = true;  // all gradients of its weights can be computed later
};

struct ProfileOptions {
  int repetitions = 10;  // times are medians over these
};

// Measures one layer after the other, on the device of the microbatch. If functions make the layers, each
// layer is deleted before the next one is made. Layers that were added as modules keep their buffers and
// gradients, and torch's random numbers are restored. Each layer runs in its own mode (train or eval).
// Without a microbatch nothing runs. Throws std::invalid_argument, which names a layer that does not accept
// the output of the one before it.
std::vector<LayerProfile> profile_layers(const PipelineLayers& layers,
                                         const std::vector<at::Tensor>& microbatch,
                                         const ProfileOptions& options = {});
// Collective. All ranks measure at the same time, because they will also compute at the same time. The first
// rank must pass a microbatch. Any other rank can pass an empty one; it then only waits. In the result, times
// are means over the ranks that measured; everything else was measured on the first rank. All ranks get the
// same profile, so all ranks split the model in the same way. If a rank throws, all ranks throw the same
// error.
//
// If the job has a checkpoint directory, the first rank stores the profile there, in a file
// layer_profile.*.json. Later calls, also those after a restart, read the file instead of measuring. Two
// measurements are never quite equal. So without the file, a restarted job could divide the model into other
// stages. A call measures again, and stores another file, if one of these differs:
// - the layers' names or numbers of parameters,
// - the microbatch's shapes, types or device,
// - the group's ranks.
// To measure again in other cases, delete the file.
std::vector<LayerProfile> profile_layers(const PipelineLayers& layers,
                                         const std::vector<at::Tensor>& microbatch, const Group& group,
                                         const ProfileOptions& options = {});

struct SplitOptions {
  int ranks = 1;
  int microbatches = 1;
  std::string schedule = "1F1B";  // a name that `launch schedule` knows
  std::optional<int> chunks{};    // stages per rank; empty: as many as the schedule needs
  // The way in which layers are divided into stages. "uniform": the numbers of layers differ by at most one.
  // "parameters": the largest number of parameters in a stage is as small as possible. "profile": the slowest
  // stage is as fast as possible. After that, some layers change to another stage if this shortens the step.
  std::string by = "profile";
  std::vector<int> first_layers{};  // of all stages, chosen by hand; empty: `by` decides
  // The limit for the memory that each rank needs at once: the bytes of its parameters times
  // `parameter_copies`, plus the activations that it holds. Empty: there is no limit.
  std::optional<std::int64_t> memory_bytes{};
  // The size of the parameters, their gradients and the optimizer's state, divided by the size of the
  // parameters: 4 for Adam, 3 for SGD with momentum, 2 for plain SGD.
  double parameter_copies = 4;
};

struct StageSplit {
  int rank = 0;
  int first_layer = 0;
  std::vector<std::string> layers{};
  std::int64_t parameters = 0;
  std::int64_t parameter_bytes = 0;
  double forward = 0, input = 0, weight = 0;  // for one microbatch
  std::int64_t activation_bytes = 0;          // for one microbatch
};

struct PipelineSplit {
  std::string schedule;
  int microbatches = 0;
  std::vector<int> first_layers{};
  std::vector<StageSplit> stages{};
  // An upper estimate of the memory that each rank needs at once, in bytes. It is the bytes of the rank's
  // parameters times `SplitOptions::parameter_copies`, plus the bytes of the activations that the rank holds.
  std::vector<std::int64_t> rank_memory_bytes{};
  double step = 0;  // without communication and optimizer
  double bubble_fraction = 0;
  std::vector<std::string> not_separable{};

  std::string table() const;
  std::string json() const;
};

// Ranks with the same profile get the same split. Throws std::invalid_argument, which says in one line what
// is impossible.
PipelineSplit split_layers(const std::vector<LayerProfile>& profile, const SplitOptions& options);

}  // namespace muster
