// Cases that tests/train/ddp_parity_test.cc does not compare with Python's.
#include <cmath>
#include <gmock/gmock.h>
#include <limits>
#include <muster/train/grad_clip.h>
#include <torch/torch.h>

namespace muster {
namespace {

using torch::Tensor;

std::vector<Tensor> parameters_with_gradients() {
  std::vector<Tensor> all{torch::zeros({2}), torch::zeros({1}, torch::kDouble), torch::zeros({3})};
  for (auto& parameter : all) parameter.requires_grad_();
  all[0].mutable_grad() = torch::tensor({3.0F, 0.0F});
  all[1].mutable_grad() = torch::tensor({-4.0}, torch::kDouble);
  return all;  // the last has no gradient
}

TEST(ClipGradNorm, ScalesAllGradientsByOneFactorAndReturnsTheNormBefore) {
  auto parameters = parameters_with_gradients();
  EXPECT_DOUBLE_EQ(clip_grad_norm_(parameters, 1.0).item<double>(), 5.0);
  EXPECT_NEAR(parameters[0].grad()[0].item<double>(), 0.6, 1e-6);
  EXPECT_NEAR(parameters[1].grad()[0].item<double>(), -0.8, 1e-6);
  EXPECT_FALSE(parameters[2].grad().defined());
  EXPECT_NEAR(clip_grad_norm_(parameters, 100.0).item<double>(), 1.0, 1e-6);
  EXPECT_NEAR(parameters[0].grad()[0].item<double>(), 0.6, 1e-6) << "small enough";
  EXPECT_NEAR(clip_grad_norm_(parameters, 100.0, std::numeric_limits<double>::infinity()).item<double>(), 0.8,
              1e-6);
}

TEST(ClipGradNorm, AcceptsAModuleOrItsHolder) {
  torch::nn::Linear linear(2, 1);
  linear->forward(torch::tensor({{3.0F, 4.0F}})).sum().backward();
  EXPECT_NEAR(clip_grad_norm_(linear, 1.0).item<double>(), std::sqrt(26.0), 1e-5);
  EXPECT_NEAR(clip_grad_norm_(*linear, 1.0).item<double>(), 1.0, 1e-5);
  EXPECT_EQ(clip_grad_norm_(torch::nn::Linear(2, 1), 1.0).item<double>(), 0.0) << "no gradients";
}

TEST(ClipGradNorm, RefusesANormThatIsNotFiniteOnlyIfAsked) {
  auto parameters = parameters_with_gradients();
  parameters[0].mutable_grad()[0] = std::numeric_limits<float>::infinity();
  EXPECT_THROW(clip_grad_norm_(parameters, 1.0, 2.0, true), std::runtime_error);
  EXPECT_EQ(parameters[1].grad()[0].item<double>(), -4.0) << "nothing was changed";
  EXPECT_TRUE(std::isinf(clip_grad_norm_(parameters, 1.0).item<double>()));
}

}  // namespace
}  // namespace muster
