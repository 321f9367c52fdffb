// Frozen parts of a model, parts with rates of their own, and initial values by the type of layer.
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/require.h"
#include "tests/train/training.h"

namespace muster {
namespace {

using testing::ThrowsMessage;

struct TwoParts : torch::nn::Module {
  TwoParts() {
    backbone = register_module("backbone",
                               torch::nn::Sequential(torch::nn::Linear(12, 8), torch::nn::BatchNorm1d(8)));
    backbone_like = register_module("backbone2", torch::nn::Linear(8, 8));
    head = register_module("head", torch::nn::Linear(8, 5));
  }
  at::Tensor forward(const at::Tensor& x) {
    return head->forward(torch::relu(backbone_like->forward(torch::relu(backbone->forward(x)))));
  }
  torch::nn::Sequential backbone{nullptr};
  torch::nn::Linear backbone_like{nullptr}, head{nullptr};
};

template <class Model>
void step(Model& model, torch::optim::Optimizer& optimizer) {
  const at::Tensor x = torch::arange(48, torch::kFloat).view({4, 12}) / 48;
  optimizer.zero_grad();
  torch::nn::functional::cross_entropy(model.forward(x), torch::tensor({0, 1, 2, 3})).backward();
  optimizer.step();
}

TEST(Freeze, RemovesGradientsOfAPartAndUnfreezeAllowsThemAgain) {
  TwoParts net;
  torch::optim::AdamW optimizer(net.parameters(), torch::optim::AdamWOptions(0.1).weight_decay(0.5));
  step(net, optimizer);  // the momenta would otherwise keep changing the part
  EXPECT_EQ(freeze(net, "backbone"), 4);
  const at::Tensor weight = net.backbone[0]->named_parameters()["weight"];
  const at::Tensor before = weight.detach().clone(), head = net.head->weight.detach().clone();
  step(net, optimizer);
  EXPECT_TRUE(weight.equal(before));
  EXPECT_FALSE(weight.grad().defined());
  EXPECT_FALSE(net.head->weight.equal(head));
  EXPECT_TRUE(net.backbone_like->weight.requires_grad()) << "its name only has the part's name as a prefix";
  EXPECT_EQ(unfreeze(net, "backbone.0.weight"), 1);
  step(net, optimizer);
  EXPECT_FALSE(weight.equal(before));
  EXPECT_EQ(freeze(net, ""), 8);
  EXPECT_THAT([&] { freeze(net, "back"); },
              ThrowsMessage<std::invalid_argument>(
                  "the model has no part 'back'; its parts are backbone, backbone2, head"));
}

TEST(Freeze, WorksOnRanksWithUnusedParts) {
  spawn(
      [](Job& job) {
        torch::manual_seed(5);
        auto net = std::make_shared<TwoParts>();
        DistributedDataParallel model(net, job, {.find_unused_parameters = true});
        torch::optim::SGD optimizer(model.parameters(), 0.1);
        freeze(model, "backbone");
        const at::Tensor weight = net->backbone[0]->named_parameters()["weight"],
                         before = weight.detach().clone();
        step(model, optimizer);
        step(model, optimizer);
        require(weight.equal(before), "frozen");
        unfreeze(model, "backbone");
        step(model, optimizer);
        require(!weight.equal(before), "thawed");
        const auto of_all = all_gather(job, weight.detach());
        require(of_all[0].equal(of_all[1]), "the same on both ranks");
      },
      2);
}

TEST(Freeze, RefusesToUnfreezeAPartThatWasFrozenWhenItWasWrapped) {
  spawn(
      [](Job& job) {
        auto net = std::make_shared<TwoParts>();
        freeze(net, "backbone.0");
        DistributedDataParallel model(net, job, {.find_unused_parameters = true});
        torch::optim::SGD optimizer(net->parameters(), 0.1);
        step(model, optimizer);
        unfreeze(net, "backbone.0");
        {
          const torch::NoGradGuard no_grad;
          model(at::ones({2, 12}));
        }
        std::string said;
        try {
          step(model, optimizer);
        } catch (const std::logic_error& refused) {
          said = refused.what();
        }
        require_equal(
            said,
            std::string(
                "DistributedDataParallel: 'backbone.0.weight' was frozen when the module was wrapped and learns now; "
                "nothing would reduce its gradient. "
                "Wrap the module before freeze() with .find_unused_parameters = true, or again after unfreeze()"),
            "on each rank");
        freeze(net, "backbone.0");
        step(model, optimizer);
      },
      2);
}

TEST(ParamGroups, GiveEachParameterToTheLongestPart) {
  using Options = torch::optim::AdamWOptions;
  TwoParts net;
  const auto groups = param_groups<Options>(
      net, {{"", Options(1e-3)}, {"backbone", Options(1e-5).weight_decay(0)}, {"backbone.0", Options(1e-6)}});
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].params().size(), 4U) << "backbone2 and head";
  EXPECT_EQ(groups[1].params().size(), 2U) << "its BatchNorm";
  EXPECT_EQ(groups[2].params().size(), 2U);
  FusedAdamW optimizer(groups);
  EXPECT_EQ(optimizer.param_groups()[1].options().get_lr(), 1e-5);
  EXPECT_EQ(static_cast<Options&>(optimizer.param_groups()[1].options()).weight_decay(), 0);
  step(net, optimizer);
  EXPECT_THAT(
      [&] { param_groups<Options>(net, {{"head", Options()}}); },
      ThrowsMessage<std::invalid_argument>(
          "the parameter 'backbone.0.weight' belongs to none of the parts; add the part '' for the rest"));
  EXPECT_THAT([&] { param_groups<Options>(net, {{"", Options()}, {"tail", Options()}}); },
              ThrowsMessage<std::invalid_argument>(
                  "the model has no part 'tail'; its parts are backbone, backbone2, head"));
}

struct Layers : torch::nn::Module {
  Layers() {
    register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3)));
    register_module("linear", torch::nn::Linear(100, 60));
    register_module("norm", torch::nn::BatchNorm2d(32));
    register_module("lstm", torch::nn::LSTM(20, 30));
    register_module("words", torch::nn::Embedding(torch::nn::EmbeddingOptions(50, 40).padding_idx(3)));
  }
  at::Tensor operator[](const std::string& name) const { return named_parameters()[name].detach(); }
};

void expect_moments(const at::Tensor& values, double mean, double std) {
  const double count = static_cast<double>(values.numel());
  EXPECT_NEAR(values.mean().item<double>(), mean, 5 * std / std::sqrt(count));
  EXPECT_NEAR(values.std().item<double>(), std, 5 * std / std::sqrt(2 * count));
}

TEST(InitWeights, InitializesEachKindOfLayer) {
  torch::manual_seed(1);
  Layers net;
  const at::Tensor norm = net["norm.weight"].clone();
  EXPECT_EQ(init_weights(net, {.conv = initializers::kaiming_normal(),
                               .linear = initializers::trunc_normal(0.02, 0, -0.03, 0.03),
                               .recurrent = initializers::orthogonal(),
                               .embedding = initializers::normal(0.5, 1)}),
            9);
  expect_moments(net["conv.weight"], 0, std::sqrt(2.0 / (16 * 9)));
  EXPECT_LE(net["linear.weight"].abs().max().item<double>(), 0.03F);
  EXPECT_GT(net["linear.weight"].abs().max().item<double>(), 0.0299);
  EXPECT_NEAR(net["linear.weight"].std().item<double>(), 0.02 * 0.7426, 0.0005)
      << "truncated at 1.5 times the deviation";
  const at::Tensor lstm = net["lstm.weight_ih_l0"];
  EXPECT_TRUE(at::allclose(lstm.t().mm(lstm), at::eye(20), 1e-5, 1e-5));
  for (const char* bias : {"conv.bias", "linear.bias", "lstm.bias_ih_l0", "lstm.bias_hh_l0"})
    EXPECT_EQ(net[bias].abs().sum().item<double>(), 0) << bias;
  EXPECT_EQ(net["words.weight"][3].abs().sum().item<double>(), 0) << "padding";
  const at::Tensor words = net["words.weight"];
  expect_moments(at::cat({words.slice(0, 0, 3), words.slice(0, 4)}), 1, 0.5);
  EXPECT_TRUE(net["norm.weight"].equal(norm));
}

TEST(InitWeights, AnOrthogonalMatrixOfDoublesEqualsPythons) {
  torch::manual_seed(0);
  at::Tensor drawn = at::empty({3, 2}, at::kDouble);
  initializers::orthogonal(2)(drawn);
  const at::Tensor expected = torch::tensor({{1.06990525952344973, -0.33986030476249141},
                                             {-1.51272167840299776, 0.68036756476522575},
                                             {-0.75297799392390985, -1.84975537573544657}},
                                            at::kDouble);
  EXPECT_TRUE(at::allclose(drawn, expected, 0, 1e-14)) << drawn;
  at::Tensor wide = at::empty({2, 3, 2});
  initializers::orthogonal()(wide);
  EXPECT_TRUE(at::allclose(wide.flatten(1).mm(wide.flatten(1).t()), at::eye(2), 1e-5, 1e-5));
  at::Tensor line = at::empty({3});
  EXPECT_THAT([&] { initializers::orthogonal()(line); },
              ThrowsMessage<std::invalid_argument>(
                  "orthogonal: the tensor has 1 dimensions; it must have at least 2"));
}

TEST(InitWeights, LeavesOtherLayersAndNamesAMissingKind) {
  Layers net;
  const at::Tensor conv = net["conv.weight"].clone();
  EXPECT_EQ(init_weights(net, {.linear = initializers::xavier_uniform(), .bias = {}}), 1);
  EXPECT_LE(net["linear.weight"].abs().max().item<double>(), std::sqrt(6.0 / 160) + 1e-6);
  expect_moments(net["linear.weight"], 0, std::sqrt(2.0 / 160));
  EXPECT_TRUE(net["conv.weight"].equal(conv));
  torch::nn::Linear linear(2, 2);
  EXPECT_THAT([&] { init_weights(linear, {.conv = initializers::uniform(0, 1)}); },
              ThrowsMessage<std::invalid_argument>("init_weights: the model has no convolution"));
}

}  // namespace
}  // namespace muster
