// One contender of the benchmark of optimizers, in its own process:
//
//   optimizers_step loop|fused MODEL STEPS FILE   the median milliseconds of a step of AdamW
//   optimizers_step zero MODEL RANKS FILE         the bytes of each rank's state, and of the whole state
//   optimizers_step log - STEPS FILE              pairs of nanoseconds: a step without and with log and bar
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <muster/muster.h>
#include <torch/torch.h>

#include "bench/measure.h"

namespace muster::bench {
namespace {

using Parameters = std::vector<at::Tensor>;

Parameters parameters_of(const std::string& model) {
  Parameters all =
      model == "resnet50"
          ? models::resnet50()->parameters()
          : models::VisionTransformer(models::VisionTransformerOptions{.layers = 14})->parameters();
  for (at::Tensor& each : all) each.mutable_grad() = torch::full_like(each, 1e-3);
  return all;
}

double median_milliseconds(torch::optim::Optimizer& optimizer, int steps) {
  constexpr int kWarmUp = 2;
  std::vector<double> milliseconds;
  for (int i = 0; i < steps + kWarmUp; ++i) {
    const std::int64_t began = now_ns();
    optimizer.step();
    if (i >= kWarmUp) milliseconds.push_back(static_cast<double>(now_ns() - began) / 1e6);
  }
  return median(milliseconds);
}

void measure_step(const std::string& kind, const std::string& model, int steps, const std::string& file) {
  torch::set_num_threads(1);
  const Parameters parameters = parameters_of(model);
  const torch::optim::AdamWOptions options(1e-3);
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  if (kind == "loop")
    optimizer = std::make_unique<torch::optim::AdamW>(parameters, options);
  else
    optimizer = std::make_unique<FusedAdamW>(parameters, options);
  std::ofstream(file) << median_milliseconds(*optimizer, steps);
}

std::size_t state_bytes(const torch::optim::Optimizer& optimizer) {
  std::size_t bytes = 0;
  for (const auto& [key, state] : optimizer.state()) {
    const auto& adam = static_cast<const torch::optim::AdamWParamState&>(*state);
    bytes += adam.exp_avg().nbytes() + adam.exp_avg_sq().nbytes();
  }
  return bytes;
}

void measure_zero(const std::string& model, int ranks, const std::string& file) {
  spawn(
      [&](Job& job) {
        torch::set_num_threads(1);
        Parameters parameters = parameters_of(model);
        std::size_t all = 0;
        for (const at::Tensor& each : parameters) all += 2 * each.nbytes();
        ZeroRedundancyOptimizer optimizer(
            parameters,
            [](const auto& groups) {
              return std::make_unique<FusedAdamW>(groups, torch::optim::AdamWOptions(1e-3));
            },
            job);
        optimizer.step();
        std::ofstream(file + "." + std::to_string(job.rank()))
            << state_bytes(optimizer.local()) << " " << all;
      },
      ranks);
}

// Alternates a slow step with the same step plus logger and progress bar.
void measure_log(int steps, const std::string& file) {
  torch::set_num_threads(1);
  const Job job = init();
  const auto directory = std::filesystem::path(file).parent_path() / "run";
  Logger logger(job, directory);
  ProgressBar bar({.total_steps = steps, .samples_per_step = 64});
  const at::Tensor weights = torch::randn({128, 128});
  std::ofstream out(file);
  for (int i = 0; i < steps; ++i) {
    const auto work = [&] { return weights.mm(weights).sum(); };
    const std::int64_t began = now_ns();
    at::Tensor loss = work();
    const std::int64_t plain = now_ns();
    loss = work();
    logger.add_scalar("loss", loss.item<double>(), i);
    bar.loss(loss);
    bar.after_step(i + 1);
    out << plain - began << " " << now_ns() - plain << "\n";
  }
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const std::string kind = argv[1];
  const int count = std::atoi(argv[3]);
  if (kind == "zero")
    muster::bench::measure_zero(argv[2], count, argv[4]);
  else if (kind == "log")
    muster::bench::measure_log(count, argv[4]);
  else
    muster::bench::measure_step(kind, argv[2], count, argv[4]);
  return 0;
}
