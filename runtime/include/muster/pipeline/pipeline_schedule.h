// Pipeline-parallel training: a batch is cut into microbatches, which go through the stages of a model, so
// that all ranks compute at the same time. The schedules and their names are torch.distributed.pipelining's.
//
//   muster::Schedule1F1B schedule({stage}, 8, [](const auto& output, const auto& target) {
//     return torch::nn::functional::cross_entropy(output, target);
//   });
//   for (auto& batch : loader) {
//     schedule.step({.inputs = {batch.data}, .target = batch.target});
//     optimizer.step();
//     optimizer.zero_grad();
//   }
//   const double loss = schedule.loss();  // known to all ranks
//
// Loss and gradients are those of the whole batch: the mean over the microbatches. Random numbers (dropout)
// depend on the step, the microbatch and the layer, so the numbers are the same for every schedule and every
// cut of PipelineLayers. If the stages are the program's own modules, random numbers depend on the stage
// instead of the layer. docs/pipeline.md describes the schedules and their costs. All functions are
// collective over the stages' group. Only the training thread may call them.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <functional>
#include <memory>
#include <muster/checkpoint/state_part.h>
#include <muster/comm/group.h>
#include <muster/pipeline/pipeline_profile.h>
#include <muster/pipeline/pipeline_stage.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster {

// Computes the loss of one microbatch, a tensor without dimensions, from the last stage's output and the
// target.
using PipelineLoss = std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>;

struct PipelineOptions {
  // true: gradients are divided by the number of microbatches, for a loss that is the mean over its samples.
  // Set it to false for a loss that is a sum.
  bool scale_grads = true;
  // true: a stage keeps only its inputs, and computes its forward pass again before its backward pass. This
  // needs less memory, but takes a third more time.
  bool recompute = false;
  // The ranks that have the same stages as this rank. Each of them trains on its own share of the batch.
  // Gradients become the mean over these ranks. At the start, all replicas get the parameters and buffers of
  // the group's first rank; afterwards each replica keeps its own buffers.
  std::optional<Group> replicas = std::nullopt;
  // Seeds the random numbers of layers. Replicas draw different numbers.
  std::uint64_t seed = 0;
  // Names of parameters that several stages have. The copies of such a parameter start equal. Each copy gets
  // the sum of all copies' gradients. Parameters of SharedModules (pipeline_layers.h) need not be listed. No
  // other parameter can be in two stages under one name.
  std::vector<std::string> tied_weights{};
};

// The input of a step. The rank of the first stage uses `inputs`, and the rank of the last stage uses
// `target`. All other ranks ignore both. The first dimension of every tensor is the batch.
struct PipelineBatch {
  std::vector<at::Tensor> inputs{};
  at::Tensor target{};
};

class PipelineSchedule {
 public:
  // `name` is a name that `launch schedule` knows, or the path of a .csv file in torch's format. `stages` are
  // this rank's stages, in the schedule's order. If the schedule does not exist or cannot run, or if the
  // stages do not fit it, all ranks throw std::invalid_argument, which names the first problem.
  PipelineSchedule(const std::string& name, std::vector<PipelineStage> stages, int n_microbatches,
                   PipelineLoss loss = {}, PipelineOptions options = {});
  PipelineSchedule(PipelineSchedule&&) noexcept;
  ~PipelineSchedule();

  // Adds the gradients of one batch to the parameters' gradients; the program then steps the optimizer. On
  // the rank of the last stage, returns the loss. On all other ranks, returns an undefined tensor.
  // Throws std::invalid_argument if the number of microbatches does not divide the batch, if shapes or
  // requires_grad differ from the first step, or if inputs and target come from DataLoaders that read
  // different samples. Only the ranks that see the mistake throw it. The other ranks wait for them, and throw
  // std::runtime_error when their processes have ended. After either error the schedule cannot be used again.
  at::Tensor step(const PipelineBatch& batch = {});
  // false: steps do not sum gradients over replicas and tied weights. To accumulate gradients over several
  // steps, set it to false for all of these steps but the last. At first it is true.
  void set_requires_gradient_sync(bool sync);

  // Runs a forward pass without gradients. The size of the batch must be a multiple of the number of
  // microbatches. On the rank of the last stage, returns the outputs of the whole batch. On all other ranks
  // it returns an empty vector.
  // The modules stay in the mode that they are in (train or eval). If the batch has a target and the schedule
  // has a loss function, loss() then returns the loss of this batch.
  std::vector<at::Tensor> eval(const PipelineBatch& batch = {});

  // Returns the loss of the last step(), or of the last eval() with a target. It is the loss over all
  // microbatches and replicas, and the same on all ranks. If there was no such call, returns NaN.
  double loss() const;
  // Works as muster::clip_grad_norm_ on the parameters of all stages. Tied parameters count once. The norm
  // has the same bits on all ranks and for every cut into stages. norm_type must be above 0.
  at::Tensor clip_grad_norm_(double max_norm, double norm_type = 2.0);

  // Returns a profile that shows where the time of the last step went. On GPUs the times in it are missing.
  PipelineProfile profile() const;

  // TrainState(schedule, optimizer, loader) calls these. They save and load the number of steps that the
  // schedule has done, because random numbers depend on it.
  void save(SavedState& to) const;
  void load(LoadedState& from);

  const std::vector<PipelineStage>& stages() const;
  std::vector<at::Tensor> parameters() const;  // of this rank's stages

 private:
  struct State;
  std::unique_ptr<State> state_;
};

namespace detail {

template <char const* kName>
class NamedSchedule : public PipelineSchedule {
 public:
  explicit NamedSchedule(std::vector<PipelineStage> stages, int n_microbatches, PipelineLoss loss = {},
                         PipelineOptions options = {})
      : PipelineSchedule(kName, std::move(stages), n_microbatches, std::move(loss), std::move(options)) {}
};
inline constexpr char kGPipe[] = "GPipe";
inline constexpr char k1F1B[] = "1F1B";
inline constexpr char kInterleaved1F1B[] = "Interleaved1F1B";
inline constexpr char kLoopedBFS[] = "LoopedBFS";
inline constexpr char kZBH1[] = "ZBH1";
inline constexpr char kInterleavedZeroBubble[] = "InterleavedZeroBubble";
inline constexpr char kZBVZeroBubble[] = "ZBVZeroBubble";
inline constexpr char kDualPipeV[] = "DualPipeV";

}  // namespace detail

using ScheduleGPipe = detail::NamedSchedule<detail::kGPipe>;
using Schedule1F1B = detail::NamedSchedule<detail::k1F1B>;
using ScheduleInterleaved1F1B = detail::NamedSchedule<detail::kInterleaved1F1B>;
using ScheduleLoopedBFS = detail::NamedSchedule<detail::kLoopedBFS>;
using ScheduleZBH1 = detail::NamedSchedule<detail::kZBH1>;
using ScheduleInterleavedZeroBubble = detail::NamedSchedule<detail::kInterleavedZeroBubble>;
using ScheduleZBVZeroBubble = detail::NamedSchedule<detail::kZBVZeroBubble>;
using ScheduleDualPipeV = detail::NamedSchedule<detail::kDualPipeV>;

}  // namespace muster
