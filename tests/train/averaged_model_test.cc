// Averages of a model, and accumulation of gradients over several batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/require.h"
#include "tests/train/checkpoint_fixture.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

void set_all(torch::nn::Module& module, double value) {
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& each : module.parameters()) each.fill_(value);
  for (const at::Tensor& each : module.buffers()) each.fill_(value);
}

TEST(AveragedModel, AveragesExponentiallyOrEqually) {
  SmallNet net, ema_net, swa_net;
  AveragedModel ema(net, ema_net, {.decay = 0.9}), swa(net, swa_net);
  double expected = 0;
  for (const double value : {1.0, 2.0, 4.0, 9.0}) {
    set_all(net, value);
    ema.update_parameters();
    swa.update_parameters();
    expected = value == 1 ? 1 : 0.9 * expected + 0.1 * value;
  }
  EXPECT_NEAR(ema_net.linear1->weight[3][4].item<double>(), expected, 1e-6);
  EXPECT_NEAR(swa_net.linear1->weight[3][4].item<double>(), 4.0, 1e-6);
  EXPECT_EQ(swa_net.norm->running_mean[0].item<double>(), 9) << "buffers are copied";
  EXPECT_EQ(ema.n_averaged(), 4);
}

TEST(AveragedModel, AveragesBuffersIfAsked) {
  SmallNet net, average;
  AveragedModel swa(net, average, {.use_buffers = true});
  for (const double value : {1.0, 4.0}) {
    set_all(net, value);
    swa.update_parameters();
  }
  EXPECT_NEAR(average.norm->running_mean[0].item<double>(), 2.5, 1e-6);
  EXPECT_EQ(average.norm->num_batches_tracked.item<std::int64_t>(), 4) << "a count";
}

TEST(AveragedModel, RefusesAnotherModel) {
  SmallNet net;
  torch::nn::Linear linear(2, 2), other(2, 3);
  EXPECT_THAT([&] { AveragedModel(net, linear); },
              ThrowsMessage<std::invalid_argument>(
                  "AveragedModel: the average and the model have different parameters"));
  EXPECT_THAT([&] { AveragedModel(linear, other); },
              ThrowsMessage<std::invalid_argument>(
                  "AveragedModel: 'weight' is Float [3, 2] in the average, and Float [2, 2] in the model"));
  EXPECT_THAT(
      [&] { AveragedModel(net, net, {.decay = 1.5}); },
      ThrowsMessage<std::invalid_argument>("AveragedModel: decay is 1.5; it must be between 0 and 1"));
}

TEST(AveragedModel, RefusesTheModelItself) {
  SmallNet net;
  EXPECT_THAT([&] { AveragedModel(net, net); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("the average is the model itself")));
}

using AveragedModelCheckpoint = CheckpointTest;

TEST_F(AveragedModelCheckpoint, ContinuesFromACheckpoint) {
  const auto run = [&](const std::string& directory, int from, int steps) {
    Training training(directory);
    SmallNet average;
    AveragedModel swa(*training.net, average);
    training.state.add("swa", average);
    training.state.add("swa_count", swa);
    EXPECT_EQ(training.checkpoints.restore(training.state), from);
    for (int step = 0; step < steps; ++step) {
      training.train(1);
      swa.update_parameters();
    }
    EXPECT_TRUE(training.checkpoints.save(training.state));
    EXPECT_EQ(swa.n_averaged(), from + steps);
    return bytes_of(average);
  };
  torch::manual_seed(3);
  const std::string undisturbed = run(scratch_ / "undisturbed", 0, 5);
  torch::manual_seed(3);
  run(directory_, 0, 2);
  EXPECT_TRUE(run(directory_, 2, 3) == undisturbed);
  SmallNet loaded;
  load_model(loaded, directory_, {.name = "swa"});
  EXPECT_TRUE(bytes_of(loaded) == undisturbed);
}

TEST(UpdateBn, RecomputesTheStatisticsOverAllBatches) {
  torch::manual_seed(2);
  SmallNet net;
  net.eval();
  set_all(net, 0.3);
  const at::Tensor a = torch::randn({10, 12}), b = torch::randn({10, 12}) + 1;
  update_bn(net, [&] {
    net.forward(a);
    net.forward(b);
  });
  const torch::NoGradGuard no_grad;
  const at::Tensor mean = (net.linear1(a).mean(0) + net.linear1(b).mean(0)) / 2;
  EXPECT_TRUE(at::allclose(net.norm->running_mean, mean, 1e-5, 1e-6));
  EXPECT_EQ(net.norm->num_batches_tracked.item<std::int64_t>(), 2);
  EXPECT_FALSE(net.is_training());
  EXPECT_EQ(net.norm->options.momentum(), 0.1);
}

TEST(UpdateBn, CountsTheBatchesOfAllRanks) {
  torch::manual_seed(2);
  std::vector<at::Tensor> batches;
  for (int i = 0; i < 5; ++i) batches.push_back(torch::randn({6, 12}) + i);
  SmallNet whole;
  update_bn(whole, [&] {
    for (const at::Tensor& batch : batches) whole.forward(batch);
  });
  spawn(
      [&](Job& job) {
        SmallNet net;
        const torch::NoGradGuard no_grad;
        for (std::size_t i = 0; i < net.parameters().size(); ++i)
          net.parameters()[i].copy_(whole.parameters()[i]);
        // There are five batches: one rank has three, one has two, one has none.
        update_bn(net, job, [&] {
          for (std::size_t i = 0; i < batches.size(); ++i)
            if (static_cast<int>(i) % 2 == job.rank()) net.forward(batches[i]);
        });
        require(at::allclose(net.norm->running_mean, whole.norm->running_mean, 1e-5, 1e-6), "mean");
        require(at::allclose(net.norm->running_var, whole.norm->running_var, 1e-5, 1e-6), "variance");
        require_equal(net.norm->num_batches_tracked.item<std::int64_t>(), std::int64_t{5}, "count");
      },
      3);
}

TEST(GradientAccumulation, ReducesOnlyWithTheLastPart) {
  spawn(
      [](Job& job) {
        torch::manual_seed(4);
        auto net = std::make_shared<torch::nn::LinearImpl>(3, 2);
        DistributedDataParallel model(net, job);
        GradientAccumulation accumulation(model, 3);
        at::Tensor whole = torch::zeros({2, 3});
        std::string pattern;
        // There are 8 batches; the last two make a step of their own.
        for (int batch = 0; batch < 8; ++batch) {
          const at::Tensor x = torch::full({1, 3}, batch + 10.0 * job.rank());
          const auto part = accumulation.part(batch == 7);
          (model.forward(x).sum() * part.scale()).backward();
          whole += torch::full({2, 3}, (batch + 5.0) / 3);  // the mean of the ranks
          pattern += part.is_last() ? 'L' : '-';
          const auto of_all = all_gather(job, net->weight.grad().contiguous());
          require_equal(of_all[0].equal(of_all[1]), part.is_last(),
                        fmt::format("reduced in batch {}", batch));
          if (!part.is_last()) continue;
          require(at::allclose(net->weight.grad(), whole, 1e-5, 1e-6), "the gradient of all parts");
          whole.zero_();
          model.zero_grad();
        }
        require_equal(pattern, std::string("--L--L-L"), "which parts are the last");
      },
      2);
}

TEST(GradientAccumulation, WorksInOneProcessToo) {
  torch::nn::Linear linear(2, 1);
  GradientAccumulation accumulation(linear, 2);
  EXPECT_FALSE(accumulation.part().is_last());
  EXPECT_TRUE(accumulation.part().is_last());
  EXPECT_EQ(accumulation.part().scale(), 0.5);
  EXPECT_THAT(
      [&] { GradientAccumulation(linear, 0); },
      ThrowsMessage<std::invalid_argument>("GradientAccumulation: steps is 0; it must be at least 1"));
}

}  // namespace
}  // namespace muster
