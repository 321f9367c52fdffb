// The steps that a GradScaler makes, the order of its calls, and autocast. optimizer_parity_test.cc compares
// the GradScaler's values with Python's.
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/require.h"
#include "tests/train/checkpoint_fixture.h"

namespace muster {
namespace {

using testing::ThrowsMessage;

TEST(Autocast, CastsAsPyTorchDoesAndRestoresTheState) {
  torch::nn::Linear linear(4, 3);
  const at::Tensor x = torch::randn({2, 4});
  const auto type = [&] { return torch::linear(x, linear->weight, linear->bias).scalar_type(); };
  {
    const auto casting = autocast(torch::kCPU);
    EXPECT_EQ(type(), torch::kBFloat16);
    EXPECT_EQ(torch::nn::functional::cross_entropy(linear(x), torch::zeros({2}, torch::kLong)).scalar_type(),
              torch::kFloat);
    {
      const auto half = autocast(torch::kCPU, {.dtype = torch::kHalf});
      EXPECT_EQ(type(), torch::kHalf) << "not the cached copy of another type";
      const auto off = autocast(torch::kCPU, {.enabled = false});
      EXPECT_EQ(type(), torch::kFloat);
    }
    EXPECT_EQ(type(), torch::kBFloat16);
  }
  EXPECT_EQ(type(), torch::kFloat);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(Autocast, CachesCastWeightsUntilTheOutermostScopeEnds) {
  torch::nn::Conv1d layer(torch::nn::Conv1dOptions(4, 3, 1).bias(false));
  const at::Tensor x = torch::ones({2, 4, 5});
  const auto change_between = [&](const AutocastOptions& options) {
    const auto casting = autocast(torch::kCPU, options);
    const at::Tensor before = layer(x);
    {
      const auto inner = autocast(torch::kCPU, options);
      const torch::NoGradGuard no_grad;
      layer->weight.add_(1);
    }
    return !layer(x).equal(before);
  };
  EXPECT_FALSE(change_between({}));
  EXPECT_FALSE(change_between({})) << "the first Autocast's cache is gone";
  EXPECT_TRUE(change_between({.cache_enabled = false}));
}

TEST(Autocast, RefusesWrongTypesAndDevices) {
  EXPECT_THAT([] { const auto casting = autocast(torch::kCPU, {.dtype = torch::kInt}); },
              ThrowsMessage<std::invalid_argument>("autocast: dtype is Int; it must be BFloat16 or Half"));
  EXPECT_THAT([] { const auto casting = autocast(torch::kMeta); },
              ThrowsMessage<std::invalid_argument>("autocast: the device is meta; it must be cpu or cuda"));
}

// Half precision, accumulation and DistributedDataParallel: after an infinity in one part of one rank's
// batch, all ranks skip the step. Otherwise the training ends like one without a scaler.
TEST(GradScaler, SkipsTheStepOfAllPartsOnAllRanks) {
  spawn(
      [](Job& job) {
        const auto train = [&](bool scaled) {
          torch::manual_seed(5);
          auto net = std::make_shared<torch::nn::LinearImpl>(3, 2);
          DistributedDataParallel model(net, job);
          torch::optim::SGD optimizer(net->parameters(), 0.1);
          GradScaler scaler(job, {.growth_interval = 3, .enabled = scaled});
          GradientAccumulation accumulation(model, 2);
          for (int batch = 0; batch < 20; ++batch) {
            const auto part = accumulation.part();
            at::Tensor loss;
            {
              const auto casting = autocast(torch::kCPU);
              loss = model(torch::full({4, 3}, 0.1 * batch + job.rank())).square().mean() * part.scale();
            }
            const bool spoilt = scaled && batch == 6 && job.rank() == 1;
            scaler.scale(spoilt ? loss * INFINITY : loss).backward();
            if (!part.is_last()) continue;
            const bool leave_out = batch / 2 == 3;
            if (scaled || !leave_out) require_equal(scaler.step(optimizer), !leave_out, "the step is made");
            scaler.update();
            optimizer.zero_grad();
          }
          if (scaled) require_equal(scaler.get_scale(), 65536.0 * 2 / 2 * 4, "the scale");
          if (!scaled) require_equal(scaler.get_scale(), 1.0, "the scale");
          return net->weight.detach().clone();
        };
        require(train(true).equal(train(false)), "as without a scaler");
      },
      2);
}

TEST(GradScaler, RefusesWrongOrdersOfCallsAndWrongOptions) {
  spawn(
      [](Job& job) {
        EXPECT_THAT(
            [&] { GradScaler(job, {.growth_factor = 1}); },
            ThrowsMessage<std::invalid_argument>("GradScaler: growth_factor is 1; it must be above 1"));
        EXPECT_THAT([&] { GradScaler(job, {.backoff_factor = 1}); },
                    ThrowsMessage<std::invalid_argument>(
                        "GradScaler: backoff_factor is 1; it must be between 0 and 1"));
        const at::Tensor parameter = torch::zeros({2}).requires_grad_();
        torch::optim::SGD optimizer({parameter}, 0.1);
        GradScaler scaler(job);
        EXPECT_THAT([&] { scaler.update(); },
                    ThrowsMessage<std::logic_error>(
                        "GradScaler: update() was called without a step() or unscale_() before it"));
        scaler.scale(parameter.sum()).backward();
        scaler.unscale_(optimizer);
        EXPECT_EQ(parameter.grad()[0].item<double>(), 1);
        EXPECT_THAT(
            [&] { scaler.unscale_(optimizer); },
            ThrowsMessage<std::logic_error>("GradScaler: unscale_() was called twice without update()"));
        EXPECT_TRUE(scaler.step(optimizer));
        EXPECT_THAT([&] { scaler.step(optimizer); },
                    ThrowsMessage<std::logic_error>("GradScaler: step() was called twice without update()"));
        scaler.update(8);
        EXPECT_EQ(scaler.get_scale(), 8);
        const at::Tensor half = torch::zeros({2}, torch::kHalf).requires_grad_();
        half.mutable_grad() = torch::ones({2}, torch::kHalf);
        torch::optim::SGD of_half({half}, 0.1);
        EXPECT_THAT([&] { scaler.step(of_half); },
                    ThrowsMessage<std::invalid_argument>("GradScaler: a parameter of shape [2] is Half; "
                                                         "keep parameters in Float, autocast casts them"));
        require(!testing::Test::HasFailure(), "refusals");
      },
      1);
}

}  // namespace
}  // namespace muster
