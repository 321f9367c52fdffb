// Pipeline-parallel training: a batch is cut into microbatches, which go through the stages of a model, so
// that every rank computes while the others do: torch.distributed.pipelining's schedules, by their names.
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
// are those of the step, the microbatch and the layer, so that every schedule and every cut of PipelineLayers
// draws the same; of a module of one's own those of its stage.
// docs/pipeline.md has the schedules, with what each costs. All of it is collective over the stages' group;
// for the training thread.
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

// Of one microbatch: the last stage's output and the target give a tensor of no dimension.
using PipelineLoss = std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>;

struct PipelineOptions {
  // Divides gradients by the number of microbatches, as for a loss that is a mean over its samples; not for
  // one that is a sum.
  bool scale_grads = true;
  // A stage keeps its inputs alone, and computes its forward again when backward comes: less memory, a third
  // more time.
  bool recompute = false;
  // The ranks that have the same stages as this one, each with its share of the batch: gradients become the
  // mean over them. Parameters and buffers begin as those of their first rank. Each replica keeps buffers of
  // its own from then on.
  std::optional<Group> replicas = std::nullopt;
  // Of the random numbers of layers. Replicas draw different ones.
  std::uint64_t seed = 0;
  // Parameters that several stages have under one name: they begin equal, and get the sum of their
  // gradients. Those of SharedModules (pipeline_layers.h) need not be named; others may not have one name.
  std::vector<std::string> tied_weights{};
};

// What a step takes: `inputs` on the rank of the first stage, `target` on that of the last one; what a rank
// has no use for is not looked at. All have the batch as their first dimension.
struct PipelineBatch {
  std::vector<at::Tensor> inputs{};
  at::Tensor target{};
};

class PipelineSchedule {
 public:
  // `name`: as in `launch schedule`, or a file of torch's form that ends in .csv. `stages`: those of this
  // rank, in the order that the schedule says. std::invalid_argument, on all ranks and with the first
  // difference, if they are not, if the schedule cannot be carried out, or if there is no such one.
  PipelineSchedule(const std::string& name, std::vector<PipelineStage> stages, int n_microbatches,
                   PipelineLoss loss = {}, PipelineOptions options = {});
  PipelineSchedule(PipelineSchedule&&) noexcept;
  ~PipelineSchedule();

  // Adds the gradients of one batch to those of the parameters; the optimizer's step is the program's. The
  // loss, on the rank of the last stage; elsewhere undefined. std::invalid_argument if microbatches do not
  // divide the batch, if shapes or what needs a gradient are not as in the first step, or if inputs and
  // target are from DataLoaders that read different samples. Only the ranks that see it throw this; the
  // others wait for them, and throw std::runtime_error once they are gone. After either the schedule cannot
  // be used again.
  at::Tensor step(const PipelineBatch& batch = {});
  // Gradients are summed over replicas and tied weights only by steps that are in sync; for gradient
  // accumulation all but the last are not. True at first.
  void set_requires_gradient_sync(bool sync);

  // Forward only, without gradients, for any size of a batch that microbatches divide. The outputs of the
  // whole batch on the rank of the last stage; elsewhere nothing. Modules stay in the mode (train, eval) that
  // they are in. With a target and a loss, loss() is that of this batch then.
  std::vector<at::Tensor> eval(const PipelineBatch& batch = {});

  // Of the last step, or eval with a target, over all its microbatches and over the replicas, the same on all
  // ranks.
  double loss() const;
  // As muster::clip_grad_norm_ over the parameters of all stages, tied ones counted once.
  at::Tensor clip_grad_norm_(double max_norm, double norm_type = 2.0);

  // Where the time of the last step went; on GPUs there are no figures.
  PipelineProfile profile() const;

  // The steps so far, on which random numbers depend: part of a TrainState(schedule, optimizer, loader).
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
