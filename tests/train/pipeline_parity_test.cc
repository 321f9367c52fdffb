// Compares trainings in C++ with torch.distributed.pipelining of the same LibTorch: the loss of every step
// and all parameters are equal to 1e-12.
//
// This program writes initial parameters and data, trains every case in C++, runs pipeline_parity.py on the
// same cases, and compares them.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <muster/muster.h>
#include <random>
#include <sys/wait.h>

#include "common/pipeline/make_schedule.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

constexpr int kSteps = 5;
constexpr int kLayers = 8;
constexpr std::int64_t kWidth = 6;
constexpr std::int64_t kLayerNumbers = kWidth * kWidth + kWidth;
constexpr std::int64_t kMicrobatchSize = 3;
constexpr std::int64_t kMostSamples = 3 * 16;  // in a batch

// A line of cases.txt, which pipeline_parity.py reads. ZBH1 is torch's InterleavedZeroBubble with one stage a
// rank.
struct Case {
  int ranks;
  std::string schedule;
  int chunks;
  int n_microbatches;
  std::string line() const { return fmt::format("{} {} {} {}", ranks, schedule, chunks, n_microbatches); }
};

const std::vector<Case> kCases{
    {2, "GPipe", 1, 4},           {2, "1F1B", 1, 7},          {2, "Interleaved1F1B", 2, 4},
    {2, "LoopedBFS", 2, 3},       {2, "ZBH1", 1, 4},          {2, "InterleavedZeroBubble", 2, 4},
    {2, "ZBVZeroBubble", 2, 5},   {2, "DualPipeV", 2, 6},     {4, "1F1B", 1, 8},
    {4, "Interleaved1F1B", 2, 8}, {4, "ZBVZeroBubble", 2, 8}, {4, "DualPipeV", 2, 16},
};

// Layers first ... last - 1 of the model.
struct PartImpl : torch::nn::Module {
  PartImpl(int first, int last, const std::vector<double>& numbers) {
    const torch::NoGradGuard no_grad;
    for (int layer = first; layer < last; ++layer) {
      auto linear = register_module(fmt::format("layer{}", layer), torch::nn::Linear(kWidth, kWidth));
      linear->to(at::kDouble);
      const double* own = numbers.data() + layer * kLayerNumbers;
      std::copy_n(own, kWidth * kWidth, linear->weight.data_ptr<double>());
      std::copy_n(own + kWidth * kWidth, kWidth, linear->bias.data_ptr<double>());
      layers.push_back(std::move(linear));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& layer : layers) x = x + torch::tanh(layer(x));
    return x;
  }
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(Part);

void write_numbers(const std::string& path, const std::vector<double>& numbers) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(numbers.data()),
             static_cast<std::streamsize>(numbers.size() * sizeof(double)));
}

std::vector<double> read_numbers(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
  return numbers;
}

// Writes parameters, then inputs and targets [step, sample, width].
void write_inputs(const ScratchDirectory& folder) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> small(-0.5, 0.5);
  const auto some = [&](std::int64_t count) {
    std::vector<double> numbers(static_cast<std::size_t>(count));
    for (double& each : numbers) each = small(random);
    return numbers;
  };
  write_numbers(folder / "parameters", some(kLayers * kLayerNumbers));
  write_numbers(folder / "inputs", some(kSteps * kMostSamples * kWidth));
  write_numbers(folder / "targets", some(kSteps * kMostSamples * kWidth));
}

// Returns the losses, if this rank has the last stage, then the parameters of the rank's stages.
std::vector<double> train(const Case& training, const Job& job, const ScratchDirectory& folder) {
  const auto numbers = read_numbers(folder / "parameters");
  const int num_stages = training.ranks * training.chunks;
  const auto ranks =
      ranks_of_stages(make_schedule(training.schedule, {.ranks = training.ranks,
                                                        .microbatches = training.n_microbatches,
                                                        .chunks = training.chunks})
                          .value());
  std::vector<PipelineStage> stages;
  for (int stage = 0; stage < num_stages; ++stage) {
    if (ranks[static_cast<std::size_t>(stage)] == job.rank())
      stages.emplace_back(Part(stage * kLayers / num_stages, (stage + 1) * kLayers / num_stages, numbers),
                          stage, num_stages, job);
  }
  PipelineSchedule schedule(
      training.schedule, stages, training.n_microbatches,
      [](const auto& output, const auto& target) { return torch::nn::functional::mse_loss(output, target); });
  torch::optim::SGD optimizer(schedule.parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
  auto inputs = read_numbers(folder / "inputs");
  auto targets = read_numbers(folder / "targets");
  std::vector<double> values;
  for (int step = 0; step < kSteps; ++step) {
    const auto batch_of = [&](std::vector<double>& all) {
      return torch::from_blob(all.data() + step * kMostSamples * kWidth,
                              {training.n_microbatches * kMicrobatchSize, kWidth}, at::kDouble);
    };
    optimizer.zero_grad();
    const at::Tensor loss = schedule.step({.inputs = {batch_of(inputs)}, .target = batch_of(targets)});
    if (loss.defined()) values.push_back(loss.item<double>());
    optimizer.step();
  }
  for (const at::Tensor& each : schedule.parameters()) {
    const at::Tensor flat = each.detach().flatten();
    values.insert(values.end(), flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
  }
  return values;
}

std::string file_of(std::size_t number, const char* who, int rank) {
  return fmt::format("{}.{}.{}", number, who, rank);
}

double greatest_difference(const std::vector<double>& ours, const std::vector<double>& theirs) {
  double greatest = 0;
  for (std::size_t i = 0; i < ours.size(); ++i)
    greatest = std::max(greatest, std::abs(ours[i] - theirs.at(i)));
  return greatest;
}

TEST(PipelineParity, LossesAndParametersEqualPythons) {
  ScratchDirectory folder;
  write_inputs(folder);
  std::ofstream cases(folder / "cases.txt");
  for (const Case& each : kCases) cases << each.line() << '\n';
  cases.close();
  for (const int ranks : {2, 4}) {
    spawn(
        [&](Job& job) {
          for (std::size_t i = 0; i < kCases.size(); ++i) {
            if (kCases[i].ranks == ranks)
              write_numbers(folder / file_of(i, "cpp", job.rank()), train(kCases[i], job, folder));
          }
        },
        ranks);
  }
  const std::string command =
      std::string(MUSTER_TORCH_PYTHON) + " -B " + PIPELINE_PARITY_SCRIPT + " " + folder.path().string();
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const auto begun = read_numbers(folder / "parameters");
  for (std::size_t i = 0; i < kCases.size(); ++i) {
    for (int rank = 0; rank < kCases[i].ranks; ++rank) {
      const auto ours = read_numbers(folder / file_of(i, "cpp", rank));
      const auto python = read_numbers(folder / file_of(i, "python", rank));
      ASSERT_GE(ours.size(), begun.size() / static_cast<std::size_t>(kCases[i].ranks));
      ASSERT_EQ(ours.size(), python.size()) << kCases[i].line() << ", rank " << rank;
      EXPECT_LE(greatest_difference(ours, python), 1e-12) << kCases[i].line() << ", rank " << rank;
    }
  }
}

}  // namespace
}  // namespace muster
