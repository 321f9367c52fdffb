// Compares learning rates and momenta with torch.optim.lr_scheduler's, bit for bit over 1,000 steps, without
// and with a checkpoint that is loaded in the middle.
#include <bit>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/checkpoint_fixture.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Lambda = std::function<double(std::int64_t)>;

constexpr int kSteps = 1000;

double metric(int step) {
  return 1.0 / (1 + step / 3) + 0.25 * ((step * 7) % 5);
}

// Equal to those in schedule_parity.py.
const std::vector<std::pair<std::string, LRSchedule>> kCases{
    {"LambdaLR", LambdaLR{{Lambda([](std::int64_t n) { return std::pow(0.95, n); }),
                           Lambda([](std::int64_t n) { return 1 / (1 + static_cast<double>(n)); })}}},
    {"StepLR", StepLR{.step_size = 30, .gamma = 0.7}},
    {"MultiStepLR", MultiStepLR{.milestones = {10, 80, 80, 500}, .gamma = 0.3}},
    {"ConstantLR", ConstantLR{.factor = 0.3, .total_iters = 17}},
    {"LinearLR", LinearLR{.start_factor = 0.1, .end_factor = 0.9, .total_iters = 333}},
    {"ExponentialLR", ExponentialLR{.gamma = 0.993}},
    {"PolynomialLR", PolynomialLR{.total_iters = 700, .power = 1.7}},
    {"CosineAnnealingLR", CosineAnnealingLR{.T_max = 130, .eta_min = 0.003}},
    {"CosineAnnealingWarmRestarts", CosineAnnealingWarmRestarts{.T_0 = 13, .T_mult = 2, .eta_min = 0.0007}},
    {"OneCycleLR", OneCycleLR{.max_lr = {0.3, 0.7}, .total_steps = 1001}},
    {"OneCycleLRLinear", OneCycleLR{.max_lr = {0.4},
                                    .epochs = 20,
                                    .steps_per_epoch = 51,
                                    .pct_start = 0.23,
                                    .anneal_strategy = OneCycleLR::Anneal::kLinear,
                                    .base_momentum = {0.8},
                                    .max_momentum = {0.9, 0.99},
                                    .div_factor = 11,
                                    .final_div_factor = 300,
                                    .three_phase = true}},
    {"ReduceLROnPlateau",
     ReduceLROnPlateau{.factor = 0.6, .patience = 7, .cooldown = 3, .min_lr = {1e-5, 1e-3}}},
    {"ReduceLROnPlateauMax", ReduceLROnPlateau{.mode = ReduceLROnPlateau::Mode::kMax,
                                               .factor = 0.9,
                                               .patience = 2,
                                               .threshold = 0.01,
                                               .threshold_mode = ReduceLROnPlateau::ThresholdMode::kAbs,
                                               .eps = 1e-4}},
    {"ChainedScheduler", ChainedScheduler{{ConstantLR{.factor = 0.1, .total_iters = 20},
                                           ExponentialLR{.gamma = 0.99}, CosineAnnealingLR{.T_max = 400}}}},
    {"SequentialLR",
     SequentialLR{
         .schedulers = {LinearLR{.start_factor = 0.01, .total_iters = 50},
                        CosineAnnealingLR{.T_max = 350, .eta_min = 1e-4},
                        StepLR{.step_size = 9, .gamma = 0.9}, PolynomialLR{.total_iters = 90, .power = 2.5},
                        MultiStepLR{.milestones = {0, 5, 12}, .gamma = 0.4},
                        ConstantLR{.factor = 0.5, .total_iters = 8}, ExponentialLR{.gamma = 0.97},
                        CosineAnnealingWarmRestarts{.T_0 = 10},
                        LambdaLR{{[](std::int64_t n) { return 1 / std::sqrt(1 + static_cast<double>(n)); }}}},
         .milestones = {50, 420, 500, 580, 620, 640, 700, 900}}},
    {"ChainOfSequence",
     ChainedScheduler{
         {SequentialLR{.schedulers = {ExponentialLR{.gamma = 0.98},
                                      LinearLR{.start_factor = 0.2, .end_factor = 0.7, .total_iters = 400}},
                       .milestones = {100}},
          StepLR{.step_size = 77, .gamma = 0.8}}}},
};

// Two groups; the second one has a rate of its own.
std::unique_ptr<torch::optim::Optimizer> make_sgd(const std::vector<at::Tensor>& parameters) {
  const auto half = std::ssize(parameters) / 2;
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector(parameters.begin(), parameters.begin() + half));
  groups.emplace_back(
      std::vector(parameters.begin() + half, parameters.end()),
      std::make_unique<torch::optim::SGDOptions>(torch::optim::SGDOptions(0.02).momentum(0.9)));
  return std::make_unique<torch::optim::SGD>(groups, torch::optim::SGDOptions(0.1).momentum(0.9));
}

// The rates of the steps first ... last - 1, in the script's order.
std::vector<double> rates_of(torch::optim::Optimizer& optimizer, LRScheduler& scheduler, bool with_metric,
                             int first, int last) {
  std::vector<double> values;
  for (int step = first; step < last; ++step) {
    for (const auto& group : optimizer.param_groups()) {
      const auto& options = static_cast<const torch::optim::SGDOptions&>(group.options());
      values.push_back(options.lr());
      values.push_back(options.momentum());
    }
    if (with_metric)
      scheduler.step(metric(step));
    else
      scheduler.step();
  }
  return values;
}

std::string first_difference(const std::vector<double>& ours, const std::string& python) {
  if (python.size() != ours.size() * sizeof(double)) return "another number of values";
  for (std::size_t i = 0; i < ours.size(); ++i) {
    double theirs = 0;
    std::memcpy(&theirs, python.data() + i * sizeof(double), sizeof(double));
    if (std::bit_cast<std::uint64_t>(ours[i]) != std::bit_cast<std::uint64_t>(theirs))
      return fmt::format("step {}, value {}: {} is not {}", i / 4, i % 4, ours[i], theirs);
  }
  return "none";
}

// An optimizer for each schedule, all in one checkpoint.
struct ScheduledTraining {
  explicit ScheduledTraining(const std::string& directory) : of_all(directory) {
    for (const auto& [name, schedule] : kCases) {
      optimizers.push_back(make_sgd(of_all.net->parameters()));
      schedulers.emplace_back(*optimizers.back(), schedule);
    }
    for (std::size_t i = 0; i < kCases.size(); ++i) {
      of_all.state.add("optimizer_of_" + kCases[i].first, *optimizers[i]);
      of_all.state.add(kCases[i].first, schedulers[i]);
    }
  }
  // Returns the rates of each schedule.
  std::vector<std::vector<double>> run(int first, int last) {
    std::vector<std::vector<double>> values;
    for (std::size_t i = 0; i < kCases.size(); ++i)
      values.push_back(rates_of(*optimizers[i], schedulers[i],
                                kCases[i].first.starts_with("ReduceLROnPlateau"), first, last));
    return values;
  }

  Training of_all;
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;
  std::vector<LRScheduler> schedulers;
};

class ScheduleParity : public CheckpointTest {};

TEST_F(ScheduleParity, RatesAndMomentaEqualPythonsAlsoAfterACheckpoint) {
  const std::string command = fmt::format("{} -B {} {} {}", MUSTER_TORCH_PYTHON, SCHEDULE_PARITY_SCRIPT,
                                          scratch_.path().string(), kSteps);
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  ScheduledTraining training(directory_);
  const auto values = training.run(0, 437);
  ASSERT_TRUE(training.of_all.checkpoints.save(training.of_all.state));
  ScheduledTraining resumed(directory_);
  resumed.of_all.checkpoints.restore(resumed.of_all.state);
  const auto rest = resumed.run(437, kSteps);
  EXPECT_EQ(rest, training.run(437, kSteps));
  for (std::size_t i = 0; i < kCases.size(); ++i) {
    std::vector<double> all = values[i];
    all.insert(all.end(), rest[i].begin(), rest[i].end());
    EXPECT_EQ(first_difference(all, read_bytes(scratch_ / kCases[i].first)), "none") << kCases[i].first;
    EXPECT_EQ(resumed.schedulers[i].last_epoch(), kSteps) << kCases[i].first;
  }
}

TEST_F(ScheduleParity, ACheckpointOfAnotherScheduleIsRefused) {
  Training training(directory_, make_sgd);
  LRScheduler scheduler(*training.optimizer, StepLR{.step_size = 3});
  training.state.add("scheduler", scheduler);
  ASSERT_TRUE(training.checkpoints.save(training.state));
  Training resumed(directory_, make_sgd);
  LRScheduler other(*resumed.optimizer,
                    SequentialLR{.schedulers = {LinearLR{}, StepLR{.step_size = 3}}, .milestones = {5}});
  resumed.state.add("scheduler", other);
  EXPECT_THAT([&] { resumed.checkpoints.restore(resumed.state); },
              ThrowsMessage<std::runtime_error>(
                  HasSubstr("its schedule is StepLR, not SequentialLR(LinearLR, StepLR)")));
}

TEST(LRScheduler, RefusesWrongOptions) {
  torch::optim::SGD optimizer({torch::zeros({1}, torch::requires_grad())}, 0.1);
  torch::optim::Adagrad adagrad({torch::zeros({1}, torch::requires_grad())}, 0.1);
  const auto refusal = [&](const LRSchedule& schedule) {
    try {
      LRScheduler(optimizer, schedule);
      LRScheduler(adagrad, schedule);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal(StepLR{}), "StepLR's step_size is 0; it must be at least 1");
  EXPECT_EQ(
      refusal(LambdaLR{{Lambda([](std::int64_t) { return 1; }), Lambda([](std::int64_t) { return 1; })}}),
      "LambdaLR's lr_lambda has 2 values; it must have 1");
  EXPECT_EQ(refusal(SequentialLR{.schedulers = {ReduceLROnPlateau{}}}),
            "SequentialLR cannot contain ReduceLROnPlateau, ChainedScheduler or SequentialLR");
  EXPECT_EQ(refusal(ChainedScheduler{{ChainedScheduler{}}}),
            "ChainedScheduler cannot contain ReduceLROnPlateau or ChainedScheduler");
  EXPECT_EQ(
      refusal(SequentialLR{.schedulers = {LinearLR{}, LinearLR{}}, .milestones = {}}),
      "SequentialLR has 2 schedulers and 0 milestones; there must be one milestone fewer than schedulers");
  EXPECT_EQ(refusal(OneCycleLR{.max_lr = {0.1}}),
            "OneCycleLR's total_steps is not set; set it, or epochs and steps_per_epoch, to at least 1");
  EXPECT_EQ(refusal(OneCycleLR{.max_lr = {0.1}, .total_steps = 10, .pct_start = 0.1}),
            "OneCycleLR's pct_start is 0.1 of 10 steps, which leaves one of its phases without a step");
  EXPECT_EQ(refusal(OneCycleLR{.max_lr = {0.1}, .total_steps = 10}),
            "OneCycleLR: the optimizer has neither momentum nor betas; set cycle_momentum to false");
  EXPECT_EQ(refusal(OneCycleLR{.max_lr = {0.1}, .total_steps = 10, .cycle_momentum = false}), "none");
}

TEST(LRScheduler, ExplainsWhyItCannotMakeAStep) {
  torch::optim::Adam optimizer({torch::zeros({1}, torch::requires_grad())}, 0.1);
  LRScheduler plateau(optimizer, ReduceLROnPlateau{});
  EXPECT_THROW(plateau.step(), std::logic_error);
  LRScheduler one_cycle(optimizer, OneCycleLR{.max_lr = {0.1}, .total_steps = 2, .pct_start = 0.9});
  EXPECT_EQ(
      std::get<0>(static_cast<torch::optim::AdamOptions&>(optimizer.param_groups()[0].options()).betas()),
      0.95);
  EXPECT_THROW(one_cycle.step(0.5), std::logic_error);
  one_cycle.step();
  one_cycle.step();
  EXPECT_THAT([&] { one_cycle.step(); },
              ThrowsMessage<std::logic_error>("OneCycleLR: step() after the last of its 2 steps"));
  optimizer.add_param_group(torch::optim::OptimizerParamGroup({torch::zeros({1}, torch::requires_grad())}));
  EXPECT_THAT([&] { plateau.step(1.0); },
              ThrowsMessage<std::logic_error>(
                  "the optimizer has 2 groups of parameters now; its schedule was made for 1"));
}

}  // namespace
}  // namespace muster
