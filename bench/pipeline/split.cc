#include "bench/pipeline/split.h"

#include <fmt/format.h>
#include <muster/muster.h>
#include <torch/torch.h>

#include "bench/measure.h"

namespace muster::bench {
namespace {

using Json = nlohmann::json;

constexpr int kSplitWarmUp = 1, kSplitSteps = 3;
constexpr std::int64_t kLinearWidth = 512;

struct Model {
  const char* name;
  PipelineLayers layers;
  at::Tensor microbatch;
  int microbatches;
};

Model linear_layers() {
  Model model{"Linear layers", PipelineLayers(1), at::randn({128, kLinearWidth}), 16};
  // The layers differ, so that the cut matters.
  for (int i = 0; i < 24; ++i) {
    const std::int64_t inner = i < 8 ? 3 * kLinearWidth : kLinearWidth;
    model.layers.add(fmt::format("block{}", i), [inner] {
      return torch::nn::Sequential(torch::nn::Linear(kLinearWidth, inner), torch::nn::ReLU(),
                                   torch::nn::Linear(inner, kLinearWidth));
    });
  }
  return model;
}

Model resnet50() {
  return {"ResNet-50", PipelineLayers(models::resnet_layers({.classes = 10}), 1), at::randn({4, 3, 64, 64}),
          8};
}

// The split's prediction, then the median of a step.
std::pair<double, double> predicted_and_measured(const Job& job, const Model& model,
                                                 const std::vector<LayerProfile>& profile,
                                                 const std::string& by) {
  const PipelineSplit split = split_layers(
      profile,
      {.ranks = job.world_size(), .microbatches = model.microbatches, .schedule = "GPipe", .by = by});
  ScheduleGPipe schedule(
      {model.layers.stage(split.first_layers, job.rank(), job)}, model.microbatches,
      [](const at::Tensor& output, const at::Tensor& /*target*/) { return output.square().mean(); });
  std::vector<std::int64_t> sizes = model.microbatch.sizes().vec();
  sizes[0] *= model.microbatches;
  const at::Tensor inputs = at::randn(sizes);
  std::vector<double> times;
  for (int step = 0; step < kSplitWarmUp + kSplitSteps; ++step) {
    for (const at::Tensor& each : schedule.parameters()) each.mutable_grad().reset();
    job.barrier();
    const std::int64_t began = now_ns();
    schedule.step({.inputs = {inputs}, .target = inputs});
    const double ms = all_reduce(job, static_cast<double>(now_ns() - began) / 1e6, ReduceOp::kMax);
    if (step >= kSplitWarmUp) times.push_back(ms);
  }
  return {1e3 * split.step, median(times)};
}

}  // namespace

// A shared machine changes its speed, so each round measures layers and then steps.
Json split_times(const Job& job, int rounds) {
  Json all;
  const std::vector<Model> models{linear_layers(), resnet50()};
  for (int round = 0; round < rounds; ++round) {
    for (const Model& model : models) {
      const auto profile = profile_layers(model.layers, {model.microbatch}, job);
      for (const char* by : {"uniform", "profile"}) {
        const auto [predicted, measured] = predicted_and_measured(job, model, profile, by);
        all[model.name][by]["predicted"].push_back(predicted);
        all[model.name][by]["step"].push_back(measured);
      }
    }
  }
  return all;
}

}  // namespace muster::bench
