// A model as a list of layers: for any cut, the stages have the names and values of the undivided model.
#include <gmock/gmock.h>
#include <muster/muster.h>
#include <torch/torch.h>

#include "runtime/pipeline/layer_random.h"
#include "tests/require.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using torch::nn::Linear;
using Tensors = std::vector<at::Tensor>;

// Words to vectors; the last layer uses the second output.
struct StartImpl : torch::nn::Module {
  explicit StartImpl(SharedModules& shared)
      : words(register_module(
            "words", shared.get<torch::nn::Embedding>("words", [] { return torch::nn::Embedding(11, 4); }))) {
  }
  torch::Tensor forward(const torch::Tensor& text) { return words(text) * scale; }
  torch::nn::Embedding words;
  torch::Tensor scale = register_parameter("scale", torch::randn({4}));
};
TORCH_MODULE(Start);

struct BlockImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x + dropout(torch::relu(linear(x))); }
  Linear linear = register_module("linear", Linear(4, 4));
  torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.5));
};
TORCH_MODULE(Block);

struct HeadImpl : torch::nn::Module {
  explicit HeadImpl(SharedModules& shared)
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({4})))),
        words(register_module(
            "words", shared.get<torch::nn::Embedding>("words", [] { return torch::nn::Embedding(11, 4); }))) {
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::matmul(norm(x), words->weight.t()); }
  torch::nn::LayerNorm norm;
  torch::nn::Embedding words;
};
TORCH_MODULE(Head);

PipelineLayers tied_model() {
  PipelineLayers layers(/*seed=*/7);
  layers.add("", [](SharedModules& shared) { return Start(shared); });
  for (int i = 0; i < 3; ++i) layers.add(fmt::format("blocks.{}", i), [] { return Block(); });
  layers.add("", [](SharedModules& shared) { return Head(shared); });
  return layers;
}

std::vector<std::string> names_of(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& each : module.named_parameters()) names.push_back(each.key());
  for (const auto& each : module.named_buffers()) names.push_back(each.key());
  return names;
}

template <class Body>
std::string refusal(const Body& body) {
  try {
    body();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// All cuts of this number of layers into two or three stages, and the undivided model.
std::vector<std::vector<int>> cuts(int layers) {
  std::vector<std::vector<int>> all{{0}};
  for (int second = 1; second < layers; ++second) {
    all.push_back({0, second});
    for (int third = second + 1; third < layers; ++third) all.push_back({0, second, third});
  }
  return all;
}

std::vector<std::shared_ptr<StageModule>> stages_of(const PipelineLayers& layers,
                                                    const std::vector<int>& cut) {
  std::vector<std::shared_ptr<StageModule>> stages;
  for (std::size_t i = 0; i < cut.size(); ++i)
    stages.push_back(layers.build(cut[i], i + 1 < cut.size() ? cut[i + 1] : layers.size()));
  return stages;
}

Tensors run(const std::vector<std::shared_ptr<StageModule>>& stages, Tensors tensors) {
  for (const auto& stage : stages) tensors = stage->forward(tensors);
  return tensors;
}

TEST(PipelineLayers, AStageHasTheGroupsDeviceAndItsPlace) {
  spawn(
      [](Job& job) {
        const PipelineStage stage = tied_model().stage({0, 3}, job.rank(), job);
        require_equal(stage.stage_index(), job.rank(), "index");
        require_equal(stage.num_stages(), 2, "stages");
        require_equal(stage.parameters().size(), std::size_t{job.rank() == 0 ? 6U : 5U}, "parameters");
        const auto output = stage.forward({job.rank() == 0 ? torch::arange(3) : torch::ones({3, 4})});
        require(output.at(0).sizes() == at::IntArrayRef(job.rank() == 0 ? std::vector<std::int64_t>{3, 4}
                                                                        : std::vector<std::int64_t>{3, 11}),
                "shape");
      },
      2);
}

TEST(PipelineLayers, HaveTheNamesThatTheyHaveInTheUndividedModel) {
  const PipelineLayers layers = tied_model();
  EXPECT_THAT(names_of(*layers.build(0, 5)),
              ElementsAre("scale", "words.weight", "blocks.0.linear.weight", "blocks.0.linear.bias",
                          "blocks.1.linear.weight", "blocks.1.linear.bias", "blocks.2.linear.weight",
                          "blocks.2.linear.bias", "norm.weight", "norm.bias"));
  EXPECT_THAT(names_of(*layers.build(3, 5)), ElementsAre("blocks.2.linear.weight", "blocks.2.linear.bias",
                                                         "norm.weight", "norm.bias", "words.weight"));
}

TEST(PipelineLayers, FromASequentialHaveItsNamesAndModules) {
  torch::nn::Sequential plain(Linear(3, 4), torch::nn::BatchNorm1d(4), torch::nn::ReLU(), Linear(4, 2));
  PipelineLayers layers;
  layers.add(plain);
  ASSERT_EQ(layers.size(), 4);
  const auto whole = layers.build(0, 4);
  EXPECT_EQ(names_of(*whole), names_of(*plain));
  const auto input = torch::randn({5, 3});
  plain->eval();
  EXPECT_TRUE(whole->forward({input}).at(0).equal(plain->forward(input)));
  EXPECT_TRUE(run(stages_of(layers, {0, 1, 3}), {input}).at(0).equal(plain->forward(input)));

  PipelineLayers below;
  below.add(torch::nn::Sequential({{"first", Linear(3, 4)}, {"second", Linear(4, 2)}}), "features");
  below.add("classifier", Linear(2, 2));
  EXPECT_THAT(names_of(*below.build(1, 3)), ElementsAre("features.second.weight", "features.second.bias",
                                                        "classifier.weight", "classifier.bias"));
}

TEST(PipelineLayers, BeginWithTheSameValuesWhereverTheyAreCut) {
  torch::manual_seed(1);
  const auto before = torch::rand({1});
  torch::manual_seed(1);
  const PipelineLayers layers = tied_model();
  const auto whole = layers.build(0, 5);
  EXPECT_TRUE(torch::rand({1}).equal(before)) << "the program's own random numbers are unaffected";
  EXPECT_FALSE(whole->named_parameters()["blocks.0.linear.weight"].equal(
      whole->named_parameters()["blocks.1.linear.weight"]));
  const auto expected = whole->named_parameters();
  for (const auto& cut : cuts(5)) {
    for (const auto& stage : stages_of(layers, cut))
      for (const auto& each : stage->named_parameters())
        EXPECT_TRUE(each.value().equal(expected[each.key()])) << each.key();
  }
  PipelineLayers other(8);
  other.add("blocks.0", [] { return Block(); });
  EXPECT_FALSE(other.build(0, 1)->parameters().at(0).equal(expected["blocks.0.linear.weight"]));
}

TEST(PipelineLayers, GiveTheSameBitsWhereverTheyAreCut) {
  const PipelineLayers layers = tied_model();
  const auto text = torch::arange(10).view({2, 5});
  std::optional<at::Tensor> expected;
  for (const auto& cut : cuts(5)) {
    const LayerRandom random(/*seed=*/3, torch::kCPU);
    const auto stages = stages_of(layers, cut);
    torch::rand({static_cast<std::int64_t>(cut.size())});  // the state at a stage's start does not matter
    const auto output = run(stages, {text}).at(0);
    if (!expected) expected = output;
    EXPECT_TRUE(output.equal(*expected)) << cut.size() << " stages";
  }
  const auto whole = layers.build(0, 5);
  EXPECT_FALSE(whole->forward({text}).at(0).equal(*expected)) << "dropout is on";
  whole->eval();
  EXPECT_FALSE(whole->is_training());
  const auto evaluated = whole->forward({text}).at(0);
  EXPECT_TRUE(whole->forward({text}).at(0).equal(evaluated));
}

TEST(PipelineLayers, ShareAModuleWithinAStageAndItsValuesBetweenStages) {
  const PipelineLayers layers = tied_model();
  const auto whole = layers.build(0, 5);
  whole->forward({torch::arange(3)}).at(0).sum().backward();
  const auto first = layers.build(0, 2);
  const auto last = layers.build(2, 5);
  const auto between = first->forward({torch::arange(3)});
  last->forward(between).at(0).sum().backward();
  EXPECT_FALSE(first->named_parameters()["words.weight"].is_same(last->named_parameters()["words.weight"]));
  whole->zero_grad();
  first->zero_grad();
  last->zero_grad();
  const auto gradient = [&](const auto& stages) {
    const LayerRandom random(3, torch::kCPU);
    run(stages, {torch::arange(3)}).at(0).square().sum().backward();
  };
  gradient(std::vector{whole});
  gradient(std::vector{first, last});
  EXPECT_TRUE(torch::allclose(
      whole->named_parameters()["words.weight"].grad(),
      first->named_parameters()["words.weight"].grad() + last->named_parameters()["words.weight"].grad()));
}

// A layer that uses a shared module but does not register it. The stage registers it under its name.
struct OutImpl : torch::nn::Module {
  explicit OutImpl(Linear which) : linear(std::move(which)) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::matmul(x, linear->weight); }
  Linear linear;
};
TORCH_MODULE(Out);

TEST(PipelineLayers, HaveSharedModulesUnderTheirNames) {
  PipelineLayers layers;
  const auto linear = [](SharedModules& shared) {
    return shared.get<Linear>("body.first", [] { return Linear(4, 3); });
  };
  layers.add("body.first", [linear](SharedModules& shared) { return linear(shared); });
  layers.add("out", [linear](SharedModules& shared) { return Out(linear(shared)); });
  const auto expected = ElementsAre("body.first.weight", "body.first.bias");
  EXPECT_THAT(names_of(*layers.build(0, 2)), expected);
  EXPECT_THAT(names_of(*layers.build(1, 2)), expected);
  EXPECT_TRUE(layers.build(0, 1)->parameters().at(0).equal(layers.build(1, 2)->parameters().at(0)));
}

struct TwoImpl : torch::nn::Module {
  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x) { return {linear(x), x}; }
  Linear linear = register_module("linear", Linear(2, 2));
};
TORCH_MODULE(Two);
struct JoinImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& y) { return x * y; }
};
TORCH_MODULE(Join);

TEST(PipelineLayers, PassOnSeveralTensors) {
  PipelineLayers layers;
  layers.add("two", [] { return Two(); });
  layers.add("join", [] { return Join(); });
  torch::nn::Sequential any{Two(), Join()};
  PipelineLayers typeless;
  typeless.add("0", *any->begin());
  typeless.add("1", *(any->begin() + 1));
  const auto x = torch::randn({3, 2});
  EXPECT_EQ(layers.build(0, 1)->forward({x}).size(), 2U);
  EXPECT_TRUE(run(stages_of(layers, {0, 1}), {x}).at(0).equal(layers.build(0, 2)->forward({x}).at(0)));
  const auto expected = any->begin()->get<TwoImpl>().linear(x) * x;
  EXPECT_TRUE(run(stages_of(typeless, {0, 1}), {x}).at(0).equal(expected));
  EXPECT_THAT(refusal([&] { layers.build(1, 2)->forward({x, x, x}); }), HasSubstr("gets 3 tensors"));
}

TEST(PipelineLayers, RefuseTwoThingsOfOneName) {
  PipelineLayers layers;
  layers.add("a", [] { return Linear(2, 2); });
  layers.add("b.c", Linear(2, 2));
  const std::string two = "two things are called ";
  EXPECT_THAT(refusal([&] { layers.add("a", [] { return Linear(2, 2); }); }), HasSubstr(two + "'a'"));
  EXPECT_THAT(refusal([&] { layers.add("b.c", Linear(2, 2)); }), HasSubstr(two + "'b.c'"));
  EXPECT_THAT(refusal([&] { layers.add("b", Linear(2, 2)); }),
              HasSubstr("'b.c' and 'b': one is inside the other"));
  EXPECT_THAT(refusal([&] { layers.add("a.d", Linear(2, 2)); }), HasSubstr("one is inside the other"));
  EXPECT_THAT(refusal([&] { layers.add("a..d", Linear(2, 2)); }), HasSubstr("cannot be a layer's name"));
  layers.add("none", [] { return std::shared_ptr<BlockImpl>(); });
  EXPECT_THAT(refusal([&] { layers.build(2, 3); }), HasSubstr("the layer 'none' has no module"));
  EXPECT_EQ(layers.size(), 3);

  PipelineLayers unnamed;
  unnamed.add("", [] { return Block(); });
  unnamed.add("", [] { return Block(); });
  EXPECT_THAT(refusal([&] { unnamed.build(0, 2); }), HasSubstr(two + "'linear'"));
  PipelineLayers inside;
  inside.add("", [] { return Block(); });
  inside.add("linear.more", [] { return Linear(2, 2); });
  EXPECT_THAT(refusal([&] { inside.build(0, 2); }), HasSubstr(two + "'linear.more'"));
  PipelineLayers types;
  types.add("x", [](SharedModules& shared) { return shared.get<Linear>("x", [] { return Linear(2, 2); }); });
  types.add("y", [](SharedModules& shared) { return shared.get<Block>("x", [] { return Block(); }); });
  EXPECT_THAT(refusal([&] { types.build(0, 2); }), HasSubstr("'x' has another type"));
}

TEST(PipelineLayers, RefuseWrongSplits) {
  const PipelineLayers layers = tied_model();
  EXPECT_THAT(refusal([&] { layers.build(2, 2); }), HasSubstr("no layers from 2 to 2 among 5"));
  EXPECT_THAT(refusal([&] { layers.build(-1, 2); }), HasSubstr("no layers from -1"));
  EXPECT_THAT(refusal([&] { layers.build(3, 6); }), HasSubstr("to 6 among 5"));
  spawn(
      [](Job& job) {
        const auto refused = [&](const std::vector<int>& first_layers, int index, const std::string& part) {
          const std::string said = refusal([&] { tied_model().stage(first_layers, index, job); });
          require(said.contains(part), said);
        };
        refused({1, 2}, 0, "stage 0 cannot begin with layer 1");
        refused({0, 2, 2}, 0, "stage 2 cannot begin with layer 2");
        refused({0, 5}, 0, "stage 1 cannot begin with layer 5");
        refused({0, 2}, 2, "no stage 2 of 2");
      },
      1);
}

}  // namespace
}  // namespace muster
