#include "bench/pipeline/split.h"

#include <fmt/core.h>
#include <muster/muster.h>
#include <torch/torch.h>

#include "bench/measure.h"

namespace muster::bench {
namespace {

using Json = nlohmann::json;

constexpr int kSplitWarmUp = 3;
constexpr std::int64_t kLinearWidth = 512;

struct Model {
  const char* name;
  PipelineLayers layers;
  at::Tensor microbatch;
  int microbatches;
};

Model linear_layers() {
  Model model{"Linear layers", PipelineLayers(1), at::randn({128, kLinearWidth}), 16};
  // Not all alike, so that there is something to cut.
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
  return {"ResNet-50", models::resnet_layers({.classes = 10}, 1), at::randn({4, 3, 64, 64}), 8};
}

Json split_step_times(const Job& job, const Model& model, const std::vector<LayerProfile>& profile,
                      const std::string& by, int steps) {
  const PipelineSplit split = split_layers(
      profile,
      {.ranks = job.world_size(), .microbatches = model.microbatches, .schedule = "GPipe", .by = by});
  ScheduleGPipe schedule(
      {model.layers.stage(split.first_layers, job.rank(), job)}, model.microbatches,
      [](const at::Tensor& output, const at::Tensor& /*target*/) { return output.square().mean(); });
  std::vector<std::int64_t> sizes = model.microbatch.sizes().vec();
  sizes[0] *= model.microbatches;
  const at::Tensor inputs = at::randn(sizes);
  Json times{{"predicted", 1e3 * split.step}, {"step", Json::array()}};
  for (int step = 0; step < kSplitWarmUp + steps; ++step) {
    for (const at::Tensor& each : schedule.parameters()) each.mutable_grad().reset();
    job.barrier();
    const std::int64_t began = now_ns();
    schedule.step({.inputs = {inputs}, .target = inputs});
    const double ms = all_reduce(job, static_cast<double>(now_ns() - began) / 1e6, ReduceOp::kMax);
    if (step >= kSplitWarmUp) times["step"].push_back(ms);
  }
  return times;
}

}  // namespace

Json split_times(const Job& job, int steps) {
  Json all;
  for (const Model& model : {linear_layers(), resnet50()}) {
    const auto profile = profile_layers(model.layers, {model.microbatch}, job);
    for (const char* by : {"uniform", "profile"})
      all[model.name][by] = split_step_times(job, model, profile, by, steps);
  }
  return all;
}

}  // namespace muster::bench
