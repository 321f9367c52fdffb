// Splits: measuring the layers' costs leaves no trace, and a split shows its costs.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <muster/muster.h>
#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include "tests/require.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using torch::nn::Linear;

template <class Body>
std::string refused(const Body& body) {
  try {
    body();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

PipelineLayers three_layers() {
  PipelineLayers layers;
  layers.add("small", [] { return Linear(8, 8); });
  layers.add("large", [] { return Linear(8, 512); });
  layers.add("last", [] { return Linear(512, 4); });
  return layers;
}

// A layer that takes `cost` units of time for each of its three parts.
LayerProfile layer_of(const std::string& name, double cost, std::int64_t parameters = 1000) {
  return {.name = name,
          .parameters = parameters,
          .parameter_bytes = 4 * parameters,
          .forward = cost / 1000,
          .input = cost / 1000,
          .weight = cost / 1000,
          .activation_bytes = 1 << 20};
}

TEST(LayerProfile, IsTheSameOnAllRanksOfAGroup) {
  spawn(
      [](Job& job) {
        for (const bool all_measure : {true, false}) {
          std::vector<at::Tensor> microbatch;
          if (job.rank() == 0 || all_measure) microbatch.push_back(torch::randn({64, 8}));
          const auto split =
              split_layers(profile_layers(three_layers(), microbatch, job), {.ranks = 2, .microbatches = 4});
          require(split.step > 0, "measured");
          const auto all = all_gather_object(job, split.json());
          require_equal(all.at(0), all.at(1), "split");
        }
        std::vector<at::Tensor> others_alone;
        if (job.rank() == 1) others_alone.push_back(torch::randn({64, 8}));
        require(refused([&] {
                  profile_layers(three_layers(), others_alone, job);
                }).contains("the group's first rank has no microbatch"),
                "the first must have one");
        std::vector<at::Tensor> microbatch{torch::randn({64, job.rank() == 0 ? 8 : 9})};
        const std::string said = refused([&] { profile_layers(three_layers(), microbatch, job); });
        require(said.contains("layer 0 ('small') cannot compute with [64, 9]"), said);
      },
      2);
}

struct SlowImpl : torch::nn::Module {
  SlowImpl(int width, bool a_slow) : slow(a_slow) { linear = register_module("linear", Linear(8, width)); }
  at::Tensor forward(const at::Tensor& x) {
    for (int i = 0; slow && i < 10; ++i) work.mm(work);
    return linear(x);
  }
  bool slow;
  at::Tensor work = torch::zeros({256, 256});
  Linear linear = nullptr;
};
TORCH_MODULE(Slow);

struct SlowModel {
  int slow = 0;  // the layer that is slow this time
  int rows = 4;
  int width = 8;  // of the last layer
  std::string last = "last";
};

// Returns the layer with which the second stage begins.
int second_of(const Group& group, const SlowModel& model) {
  torch::set_num_threads(1);
  PipelineLayers layers;
  layers.add("first", [&] { return Slow(8, model.slow == 0); });
  layers.add("middle", [] { return Slow(8, false); });
  layers.add(model.last, [&] { return Slow(model.width, model.slow == 2); });
  const auto profile = profile_layers(layers, {torch::ones({model.rows, 8})}, group, {.repetitions = 3});
  const auto split = split_layers(profile, {.ranks = 2, .microbatches = 4});
  for (const std::string& each : all_gather_object(group, split.json()))
    require_equal(each, split.json(), "split");
  return split.first_layers.at(1);
}

std::vector<std::filesystem::path> json_files(const ScratchDirectory& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& each : std::filesystem::directory_iterator(directory.path()))
    if (each.path().extension() == ".json") files.push_back(each.path());
  return files;
}

// Else a restart would cut elsewhere.
TEST(LayerProfile, IsThatOfTheFirstStartAfterARestart) {
  const ScratchDirectory directory;
  setenv("MUSTER_CHECKPOINT_DIR", directory.path().c_str(), 1);
  spawn([](Job& job) { require_equal(second_of(job, {.slow = 0}), 1, "cut of the first start"); }, 2);
  EXPECT_EQ(json_files(directory).size(), 1U);
  spawn(
      [&](Job& job) {
        require_equal(second_of(job, {.slow = 2}), 1, "cut of the second start");
        // Measures again if something has changed.
        const Group one = job.new_group({0});
        if (one.is_member()) require_equal(second_of(one, {.slow = 2}), 2, "cut with other ranks");
        require_equal(second_of(job, {.slow = 2, .rows = 5}), 2, "cut with another microbatch");
        require_equal(second_of(job, {.slow = 2, .last = "head"}), 2, "cut with another name");
        require_equal(second_of(job, {.slow = 2}), 1, "cut after others were stored");
        require_equal(second_of(job, {.slow = 2, .width = 7}), 2, "cut with other parameters");
        require_equal(second_of(job, {.slow = 0, .width = 7}), 2, "cut with these parameters again");
        const auto change_files = [&](const auto& change) {
          if (job.rank() == 0) std::ranges::for_each(json_files(directory), change);
          job.barrier();
        };
        change_files([](const auto& path) { std::ofstream(path) << "{\"profile\": 3"; });
        require_equal(second_of(job, {.slow = 0}), 1, "cut after the file was damaged");
        change_files([](const auto& path) { std::filesystem::remove(path); });
        require_equal(second_of(job, {.slow = 2}), 2, "cut after the file was deleted");
      },
      2);
  unsetenv("MUSTER_CHECKPOINT_DIR");
}

TEST(LayerProfile, KnowsShapesAndBytesOfEachLayer) {
  PipelineLayers layers;
  layers.add("linear", [] { return Linear(4, 8); });
  layers.add("relu", [] { return torch::nn::ReLU(torch::nn::ReLUOptions(/*inplace=*/true)); });
  layers.add("gelu", [] { return torch::nn::GELU(); });
  layers.add("flatten", [] { return torch::nn::Flatten(); });
  layers.add("head", [] { return Linear(16, 3); });
  const auto profile = profile_layers(layers, {torch::randn({5, 2, 4})}, {.repetitions = 1});
  ASSERT_EQ(profile.size(), 5U);
  std::vector<std::int64_t> parameters, activations, inputs;
  for (const LayerProfile& each : profile) {
    parameters.push_back(each.parameter_bytes);
    activations.push_back(each.activation_bytes);
    inputs.push_back(each.input_bytes);
  }
  EXPECT_THAT(parameters, ElementsAre(4 * 40, 0, 0, 0, 4 * 51));
  // A layer that computes in place keeps no new memory, and neither does a view.
  EXPECT_THAT(activations, ElementsAre(4 * 80, 0, 4 * 80, 0, 4 * 15));
  EXPECT_THAT(inputs, ElementsAre(4 * 40, 4 * 80, 4 * 80, 4 * 80, 4 * 80));
  EXPECT_THAT(profile[3].output_shapes, ElementsAre(ElementsAre(5, 16)));
  // Without a microbatch nothing runs.
  const auto unmeasured = profile_layers(layers, {});
  EXPECT_EQ(unmeasured[4].parameters, 51);
  EXPECT_EQ(unmeasured[4].forward, 0);
}

// An LSTM computes its weight gradients together with its input's.
struct MemoryImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) {
    return std::get<0>(lstm(linear(x).unsqueeze(0))).squeeze(0);
  }
  Linear linear = register_module("linear", Linear(512, 8));
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(8, 8));
};
TORCH_MODULE(Memory);

TEST(LayerProfile, MeasuresTimesAndWhichWeightGradientsCanWait) {
  PipelineLayers layers;
  layers.add("words", [] { return torch::nn::Embedding(10, 512); });
  layers.add("wide", [] { return Linear(512, 512); });
  layers.add("relu", [] { return torch::nn::ReLU(); });
  layers.add("memory", [] { return Memory(); });
  layers.add("narrow", [] { return Linear(8, 1); });
  const auto profile = profile_layers(layers, {torch::zeros({256}, torch::kLong)});
  EXPECT_GT(profile[1].forward, 3 * profile[4].forward);
  EXPECT_GT(profile[1].input, 0);
  EXPECT_GT(profile[1].weight, 0);
  EXPECT_GT(profile[0].weight, 0);
  EXPECT_EQ(profile[2].weight, 0) << "it has none";
  EXPECT_GT(profile[2].input, 0);
  EXPECT_GT(profile[3].weight, 0) << "of its linear layer";
  std::vector<bool> separable;
  for (const LayerProfile& each : profile) separable.push_back(each.separable);
  EXPECT_THAT(separable, ElementsAre(true, true, true, false, true));
}

TEST(LayerProfile, LeavesEverythingAsItWas) {
  torch::nn::Sequential model(Linear(4, 4), torch::nn::BatchNorm1d(4), torch::nn::Dropout(0.5), Linear(4, 1));
  model->forward(torch::randn({6, 4})).sum().backward();
  std::vector<at::Tensor> before;
  const auto state = [&] {
    std::vector<at::Tensor> tensors = model->buffers();
    for (const at::Tensor& parameter : model->parameters()) {
      tensors.push_back(parameter.detach());
      tensors.push_back(parameter.grad());
    }
    return tensors;
  };
  for (const at::Tensor& each : state()) before.push_back(each.clone());
  const void* gradient = model->parameters().at(0).grad().data_ptr();
  torch::manual_seed(5);
  const auto expected = torch::rand({3});
  torch::manual_seed(5);
  PipelineLayers layers;
  layers.add(model);
  profile_layers(layers, {torch::randn({6, 4}, torch::dtype(torch::kFloat))}, {.repetitions = 2});
  torch::manual_seed(5);
  profile_layers(layers, {torch::ones({6, 4})}, {.repetitions = 2});
  EXPECT_TRUE(torch::rand({3}).equal(expected));
  const auto after = state();
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(after[i].equal(before[i])) << i;
  EXPECT_EQ(model->parameters().at(0).grad().data_ptr(), gradient);
  EXPECT_TRUE(model->is_training());
}

TEST(LayerProfile, NamesTheLayerThatCannotComputeWithItsInput) {
  PipelineLayers layers = three_layers();
  layers.add("wrong", [] { return Linear(5, 1); });
  const std::string said = refused([&] { profile_layers(layers, {torch::randn({2, 8})}); });
  EXPECT_THAT(said, HasSubstr("profile_layers: layer 3 ('wrong') cannot compute with [2, 4]: "));
  EXPECT_EQ(said.find('\n'), std::string::npos);
}

TEST(PipelineSplit, IsShownAsATableAndAsJson) {
  std::vector<LayerProfile> profile{layer_of("words", 1, 500'000), layer_of("blocks.0", 3),
                                    layer_of("blocks.1", 3), layer_of("", 1)};
  profile[2].separable = false;
  const auto split = split_layers(profile, {.ranks = 2, .microbatches = 4});
  EXPECT_THAT(split.first_layers, ElementsAre(0, 2));
  EXPECT_EQ(split.table(),
            "stage  rank  layers                     parameters  forward  input  weight  activations\n"
            "0      0     0 to 1, words to blocks.0  501,000     4.000    4.000  4.000   2.00 MiB\n"
            "1      1     2 to 3                     2,000       4.000    4.000  4.000   2.00 MiB\n"
            "memory at most: rank 0 11.64 MiB, rank 1 2.03 MiB\n"
            "1F1B with 4 microbatches: 60.000 ms a step, 20.0 % of the ranks' time is idle "
            "(times are ms of a microbatch)\n"
            "weight gradients cannot be computed later in: blocks.1\n");
  const auto json = nlohmann::json::parse(split.json());
  EXPECT_EQ(json["schedule"], "1F1B");
  EXPECT_DOUBLE_EQ(json["step_seconds"].get<double>(), 0.06);
  EXPECT_DOUBLE_EQ(json["bubble_fraction"].get<double>(), 0.2);
  EXPECT_EQ(json["first_layers"], (std::vector{0, 2}));
  EXPECT_EQ(json["rank_memory_bytes"].size(), 2U);
  EXPECT_EQ(json["not_separable"], std::vector<std::string>{"blocks.1"});
  EXPECT_EQ(json["stages"][1]["rank"], 1);
  EXPECT_EQ(json["stages"][0]["layers"], (std::vector<std::string>{"words", "blocks.0"}));
  EXPECT_EQ(json["stages"][0]["parameters"], 501'000);
  EXPECT_DOUBLE_EQ(json["stages"][0]["weight_seconds"].get<double>(), 0.004);
}

TEST(PipelineSplit, ByProfileIsFasterThanUniformAndByHandIsAsGiven) {
  std::vector<LayerProfile> profile;
  for (const double cost : {1, 1, 1, 1, 5, 1, 1, 9}) profile.push_back(layer_of("layer", cost));
  const auto step = [&](SplitOptions options) {
    options.ranks = 2;
    options.microbatches = 8;
    return split_layers(profile, options);
  };
  EXPECT_LT(step({}).step, 0.8 * step({.by = "uniform"}).step);
  EXPECT_THAT(step({.by = "parameters"}).first_layers, ElementsAre(0, 4));
  EXPECT_THAT(step({.first_layers = {0, 7}}).first_layers, ElementsAre(0, 7));
  const auto chunked = step({.schedule = "interleaved1f1b", .chunks = 2});
  EXPECT_EQ(chunked.schedule, "Interleaved1F1B");
  ASSERT_EQ(chunked.stages.size(), 4U);
  EXPECT_EQ(chunked.stages[2].rank, 0);
  EXPECT_EQ(chunked.rank_memory_bytes.size(), 2U);
}

TEST(PipelineSplit, RefusesImpossibleSplitsInOneLine) {
  const std::vector<LayerProfile> profile{layer_of("a", 1), layer_of("b", 1)};
  const auto said = [&](const SplitOptions& options) {
    return refused([&] { split_layers(profile, options); });
  };
  EXPECT_EQ(said({.ranks = 3, .microbatches = 3}),
            "split_layers: 2 layers cannot be split into 3 stages: each needs at least one");
  EXPECT_THAT(said({.ranks = 2, .microbatches = 2, .memory_bytes = 1 << 20}),
              HasSubstr("at least 2113152 are needed"));
  EXPECT_THAT(said({.ranks = 2, .microbatches = 2, .first_layers = {0, 1}, .memory_bytes = 1 << 10}),
              HasSubstr("memory_bytes is 1024, but rank"));
  EXPECT_THAT(said({.ranks = 2, .microbatches = 2, .first_layers = {0, 2}}),
              HasSubstr("stage 1 cannot begin with layer 2"));
  EXPECT_THAT(said({.ranks = 2, .microbatches = 2, .by = "time"}), HasSubstr("'time'"));
  EXPECT_THAT(said({.ranks = 2, .microbatches = 2, .schedule = "2F2B"}), HasSubstr("2F2B"));
  const auto unmeasured = [&] {
    split_layers(profile_layers(three_layers(), {}), {.ranks = 2, .microbatches = 2});
  };
  EXPECT_THAT(refused(unmeasured), HasSubstr("needs the times of a microbatch"));
}

}  // namespace
}  // namespace muster
