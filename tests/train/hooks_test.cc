// Hooks of layers and gradients: what they see and change, where they can be added, and their removal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/require.h"
#include "tests/train/training.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

struct HookedBlock : torch::nn::Module {
  torch::nn::Sequential inside =
      register_module("inside", torch::nn::Sequential(torch::nn::Linear(4, 4), torch::nn::Tanh()));
  at::Tensor forward(const at::Tensor& x) { return inside->forward(x); }
};

struct HookedNet : torch::nn::Module {
  torch::nn::Sequential features = register_module(
      "features", torch::nn::Sequential(torch::nn::Linear(3, 4), torch::nn::ReLU(), HookedBlock()));
  torch::nn::Linear plain = register_module("plain", torch::nn::Linear(4, 4));
  Hooked<torch::nn::Linear> head = register_module("head", Hooked<torch::nn::Linear>(4, 2));
  at::Tensor forward(const at::Tensor& x) { return head(plain(features->forward(x))); }
};

TEST(Hooks, SeeAndChangeALayersInputsAndOutputs) {
  HookedNet net;
  const auto names = net.named_parameters().keys();
  const at::Tensor x = torch::randn({2, 3}), before = net.forward(x);
  std::vector<std::string> calls;
  at::Tensor seen;
  auto at_tanh =
      register_forward_hook(net, "features.2.inside.1", [&](auto& layer, auto& input, auto& output) {
        calls.push_back(layer.name());
        EXPECT_TRUE(output.equal(input.tanh()));
        seen = output.detach();
        return at::Tensor();
      });
  auto at_head = register_forward_hook(net, "head", [&](auto&, auto&, auto& output) { return output * 2; });
  auto also_at_head =
      register_forward_hook(net, "head", [&](auto&, auto&, auto& output) { return output + 1; });
  EXPECT_TRUE(net.forward(x).allclose(before * 2 + 1)) << "called in the order of registration";
  EXPECT_THAT(calls, ElementsAre("torch::nn::TanhImpl"));
  EXPECT_EQ(seen.sizes(), (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(net.named_parameters().keys(), names) << "names do not change";

  auto at_first = register_forward_pre_hook(net, "features.0", [&](auto&, auto& input) { return input * 0; });
  EXPECT_TRUE(net.forward(x)[0].equal(net.forward(x)[1]));
  at_first.remove();
  at_first.remove();
  at_head.remove();
  also_at_head.remove();
  at_tanh.remove();
  EXPECT_TRUE(net.forward(x).equal(before));
  EXPECT_EQ(calls.size(), 3U);
  torch::nn::Sequential cloneable(torch::nn::Linear(3, 4), torch::nn::ReLU());
  auto at_relu = register_forward_hook(*cloneable, "1", [](auto&, auto&, auto&) { return at::Tensor(); });
  EXPECT_THROW(cloneable->clone(), std::logic_error);
  at_relu.remove();
  EXPECT_NO_THROW(cloneable->clone()) << "no hook is left";
}

TEST(Hooks, AreRefusedIfNothingWouldCallThem) {
  HookedNet net;
  const auto none = [](auto&, auto&) { return at::Tensor(); };
  EXPECT_THAT([&] { register_forward_pre_hook(net, "plain", none); },
              ThrowsMessage<std::invalid_argument>(testing::HasSubstr(
                  "hooks: 'plain' is called by code of muster::(anonymous namespace)::HookedNet, "
                  "where no hook can be added; "
                  "declare it as muster::Hooked<...>, or put it into a Sequential")));
  EXPECT_THAT([&] { register_forward_pre_hook(net, "feature", none); },
              ThrowsMessage<std::invalid_argument>("hooks: the model has no layer 'feature'"));
  EXPECT_THAT([&] { register_gradient_hook(net, "tail", [](auto&, auto&) { return at::Tensor(); }); },
              ThrowsMessage<std::invalid_argument>(
                  "hooks: no parameter of the model's part 'tail' requires a gradient"));
}

TEST(Hooks, OfGradientsRunBeforeTheReduction) {
  spawn(
      [](Job& job) {
        torch::manual_seed(3);
        auto net = std::make_shared<HookedNet>();
        DistributedDataParallel model(net, job);
        std::vector<std::string> names;
        auto hook =
            register_gradient_hook(*net, "head", [&](const std::string& name, const at::Tensor& gradient) {
              names.push_back(name);
              return at::full_like(gradient, job.rank());
            });
        model(torch::ones({2, 3})).sum().backward();
        std::ranges::sort(names);
        require(names == std::vector<std::string>{"head.bias", "head.weight"}, "both parameters");
        require(net->head->weight.grad().equal(torch::full({2, 4}, 0.5)), "the mean of the ranks");
        hook.remove();
        model.zero_grad();
        model(torch::ones({2, 3})).sum().backward();
        require(net->head->bias.grad().equal(torch::full({2}, 2.0)), "removed");
      },
      2);
}

}  // namespace
}  // namespace muster
