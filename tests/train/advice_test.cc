// Counts the memory that programs keep according to docs/advice.md.
#include <fmt/format.h>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "runtime/model/allocated_bytes.h"

namespace muster {
namespace {

constexpr std::int64_t kWidth = 256;
constexpr std::int64_t kBatch = 64;
constexpr std::int64_t kActivation = kBatch * kWidth * 4;  // bytes of one layer's output

torch::nn::Sequential four_layers() {
  torch::nn::Sequential net;
  for (int i = 0; i < 4; ++i) {
    net->push_back(torch::nn::Linear(kWidth, kWidth));
    net->push_back(torch::nn::Tanh());
  }
  return net;
}

struct Counted {
  std::int64_t kept = 0;
  std::int64_t peak = 0;
};
Counted count(const std::function<void()>& body) {
  const auto bytes = std::make_shared<AllocatedBytes>();
  const c10::DebugInfoGuard counting(c10::DebugInfoKind::PROFILER_STATE, bytes);
  body();
  return {bytes->now(), bytes->peak()};
}

TEST(Advice, ASumOfLossesKeepsEveryGraph) {
  auto net = four_layers();
  const at::Tensor x = torch::randn({kBatch, kWidth});
  const auto loss_of = [&] { return net->forward(x).square().mean(); };
  at::Tensor tensor, detached_sum;
  const Counted as_tensor = count([&] {
    tensor = torch::zeros({});
    for (int step = 0; step < 10; ++step) tensor = tensor + loss_of();
  });
  double number = 0;
  const Counted as_number = count([&] {
    for (int step = 0; step < 10; ++step) number += loss_of().item<double>();
  });
  const Counted detached = count([&] {
    detached_sum = torch::zeros({});
    for (int step = 0; step < 10; ++step) detached_sum += loss_of().detach();
  });
  fmt::print("a sum of ten losses keeps {} bytes, as a number {}, detached {}\n", as_tensor.kept,
             as_number.kept, detached.kept);
  EXPECT_GE(as_tensor.kept, 10 * 4 * kActivation);
  EXPECT_LT(as_number.kept, 1024);
  EXPECT_LT(detached.kept, 1024);
  EXPECT_LT(detached.peak, as_tensor.peak / 4);
}

TEST(Advice, EvalAloneKeepsActivations) {
  auto net = four_layers();
  const at::Tensor x = torch::randn({kBatch, kWidth});
  net->eval();
  const Counted with_grad = count([&] { net->forward(x); });
  const Counted without = count([&] {
    const torch::NoGradGuard no_grad;
    net->forward(x);
  });
  fmt::print("a forward in eval() takes {} bytes, under NoGradGuard {}\n", with_grad.peak, without.peak);
  EXPECT_GE(with_grad.peak, 5 * kActivation);
  EXPECT_LE(without.peak, 2 * kActivation);
  // NoGradGuard does not change dropout and BatchNorm, so evaluation needs both.
  torch::nn::Dropout dropout(0.5);
  const torch::NoGradGuard no_grad;
  EXPECT_GT(dropout(torch::ones({1000})).eq(0).sum().item<std::int64_t>(), 0);
  dropout->eval();
  EXPECT_EQ(dropout(torch::ones({1000})).eq(0).sum().item<std::int64_t>(), 0);
}

TEST(Advice, KeptOutputsMustBeDetachedFirst) {
  auto net = four_layers();
  const at::Tensor x = torch::randn({kBatch, kWidth});
  std::vector<at::Tensor> kept;
  const Counted whole = count([&] {
    for (int i = 0; i < 5; ++i) kept.push_back(net->forward(x));
  });
  kept.clear();
  const Counted detached = count([&] {
    for (int i = 0; i < 5; ++i) kept.push_back(net->forward(x).detach());
  });
  fmt::print("five outputs keep {} bytes, detached {}\n", whole.kept, detached.kept);
  EXPECT_GE(whole.kept, 5 * 4 * kActivation);
  EXPECT_EQ(detached.kept, 5 * kActivation);
  // A conversion or a copy to another device is part of the graph unless the tensor is detached first.
  const at::Tensor output = net->forward(x);
  EXPECT_TRUE(output.to(at::kDouble).grad_fn() != nullptr);
  EXPECT_TRUE(output.detach().to(at::kDouble).grad_fn() == nullptr);
}

}  // namespace
}  // namespace muster
