// Compares fused optimizers with Python's with fused=True: all parameters after each of 20 steps, bit for
// bit. ZeroRedundancyOptimizer must give the same parameters, also from a checkpoint of another number of
// ranks.
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/check.h"
#include "tests/require.h"
#include "tests/train/checkpoint_fixture.h"

namespace muster {
namespace {

namespace optim = torch::optim;
using Parameters = std::vector<at::Tensor>;
using Groups = std::vector<optim::OptimizerParamGroup>;
using Make = ZeroRedundancyOptimizer::Make;

constexpr int kOptimizerSteps = 20;

// Equal to those in optimizer_parity.py.
const std::vector<std::vector<std::int64_t>> kShapes{{37, 11}, {5}, {64, 3, 3, 3}};

template <class Kind, class Options>
Make of(const Options& options) {
  return [options](const Groups& groups) { return std::make_unique<Kind>(groups, options); };
}
const std::vector<std::pair<std::string, Make>> kOptimizers{
    {"FusedAdam", of<FusedAdam>(optim::AdamOptions(1e-2).betas({0.8, 0.97}).eps(1e-7).weight_decay(0.03))},
    {"FusedAdamAmsgrad", of<FusedAdam>(optim::AdamOptions(1e-2).weight_decay(0.03).amsgrad(true))},
    {"FusedAdamW", of<FusedAdamW>(optim::AdamWOptions(1e-2).weight_decay(0.2))},
    {"FusedSGD", of<FusedSGD>(optim::SGDOptions(1e-2).weight_decay(0.03))},
    {"FusedSGDMomentum",
     of<FusedSGD>(optim::SGDOptions(1e-2).momentum(0.9).dampening(0.2).weight_decay(0.03))},
    {"FusedSGDNesterov", of<FusedSGD>(optim::SGDOptions(1e-2).momentum(0.9).nesterov(true))},
};

at::Tensor filled(const std::vector<std::int64_t>& shape, std::uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed));
}

struct Model : torch::nn::Module {
  Model() {
    for (std::size_t i = 0; i < kShapes.size(); ++i)
      register_parameter(fmt::format("p{}", i), filled(kShapes[i], i));
  }
  // Two groups; the second one has options of its own. None of them equals its type's default, such as
  // AdamW's weight decay of 0.01: since 2.12 LibTorch replaces such a value by the optimizer's.
  Groups groups(const Make& make) {
    const Parameters all = parameters();
    Groups groups;
    groups.emplace_back(Parameters(all.begin(), all.begin() + 2));
    auto options = make({optim::OptimizerParamGroup(Parameters(all.begin() + 2, all.end()))})
                       ->param_groups()[0]
                       .options()
                       .clone();
    options->set_lr(3e-3);
    if (auto* const adam = dynamic_cast<optim::AdamOptions*>(options.get())) adam->weight_decay(0.015);
    if (auto* const adam = dynamic_cast<optim::AdamWOptions*>(options.get())) adam->weight_decay(0.015);
    if (auto* const sgd = dynamic_cast<optim::SGDOptions*>(options.get())) sgd->weight_decay(0.015);
    groups.emplace_back(Parameters(all.begin() + 2, all.end()), std::move(options));
    return groups;
  }
  // Sets the gradients of this step. One has other strides; one parameter gets its first gradient late.
  void set_grads(int step, bool late) {
    const Parameters all = parameters();
    for (std::size_t i = 0; i < kShapes.size(); ++i) {
      at::Tensor grad = filled(kShapes[i], 1000 + static_cast<std::uint64_t>(step) * 10 + i);
      if (grad.dim() == 4) grad = grad.contiguous(at::MemoryFormat::ChannelsLast);
      all[i].mutable_grad() = late && i == 1 && step < 3 ? at::Tensor() : grad;
    }
  }
  std::vector<double> values() const {
    std::vector<double> values;
    for (const at::Tensor& each : parameters()) append(values, each.detach());
    return values;
  }
  static void append(std::vector<double>& to, const at::Tensor& tensor) {
    const at::Tensor flat = tensor.contiguous().flatten().to(at::kDouble);
    const auto* const first = static_cast<const double*>(flat.const_data_ptr());
    to.insert(to.end(), first, first + flat.numel());
  }
};

void write_doubles(const std::string& path, const std::vector<double>& values) {
  write_bytes(path, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)});
}

const ScratchDirectory& made_by_python() {
  static const ScratchDirectory folder;
  static const bool made = [] {
    write_doubles(folder / "parameters", Model().values());
    for (int step = 0; step < kOptimizerSteps; ++step) {
      Model model;
      model.set_grads(step, /*late=*/false);
      std::vector<double> grads;
      for (const at::Tensor& each : model.parameters()) Model::append(grads, each.grad());
      write_doubles(folder / fmt::format("grads.{}", step), grads);
    }
    const std::string command = fmt::format("{} -B {} {} {}", MUSTER_TORCH_PYTHON, OPTIMIZER_PARITY_SCRIPT,
                                            folder.path().string(), kOptimizerSteps);
    return std::system(command.c_str()) == 0;
  }();
  CHECK(made, "optimizer_parity.py failed");
  return folder;
}

class OptimizerParity : public CheckpointTest {};

TEST_F(OptimizerParity, ParametersEqualThoseOfPythonsFusedOptimizers) {
  for (const auto& [name, make] : kOptimizers) {
    Model model;
    const auto optimizer = make(model.groups(make));
    std::string ours;
    for (int step = 0; step < kOptimizerSteps; ++step) {
      model.set_grads(step, !name.starts_with("FusedSGD"));
      optimizer->step();
      const auto values = model.values();
      ours.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
    }
    EXPECT_TRUE(ours == read_bytes(made_by_python() / (name + ".python"))) << name;
  }
}

// The steps with a GradScaler, as in optimizer_parity.py.
constexpr int kScalerSteps = 50;
const std::map<int, double> kPlanted{{3, INFINITY}, {11, NAN}, {12, -INFINITY}, {13, INFINITY}, {34, NAN}};

// New objects continue from a checkpoint after step 26. Only rank 1 gets the planted infinities and NaNs.
template <class MakeRankOptimizer>
std::vector<double> train_scaled(Job& job, const GradScalerOptions& options, const std::string& directory,
                                 const MakeRankOptimizer& make) {
  std::vector<double> values;
  NoiseDataset dataset(64);
  for (const auto& [first, last] : {std::pair(0, 26), std::pair(26, kScalerSteps)}) {
    Model model;
    const auto optimizer = make(model.parameters());
    GradScaler scaler(job, options);
    DataLoader<Example> loader{dataset, {.batch_size = 8}, 0, 1};
    Checkpointer checkpoints(job, {.every = 1000, .directory = directory});
    TrainState state(model, *optimizer, loader);
    state.add("scaler", scaler);
    require_equal(checkpoints.restore(state), std::int64_t{first}, "step");
    for (int step = first; step < last; ++step) {
      model.set_grads(step % kOptimizerSteps, /*late=*/false);
      const auto parameters = model.parameters();
      for (const at::Tensor& each : parameters) each.mutable_grad().mul_(scaler.scale(at::ones({})));
      if (job.rank() == 1 && kPlanted.contains(step)) {
        const at::Tensor grad = parameters[static_cast<std::size_t>(step) % 3].grad();
        grad.mul_(at::ones(grad.sizes()).index_put_({0}, kPlanted.at(step)));
      }
      if (step % 2 == 0) scaler.unscale_(*optimizer);
      require_equal(scaler.step(*optimizer), !kPlanted.contains(step), fmt::format("step {} is made", step));
      scaler.update();
      checkpoints.step(state);
      for (const double value : model.values()) values.push_back(value);
      values.push_back(scaler.get_scale());
      values.push_back(static_cast<double>(scaler.growth_tracker()));
    }
    require(checkpoints.save(state), "a save");
  }
  return values;
}

TEST_F(OptimizerParity, AGradScalerEqualsPythonsAndAllRanksSkipTheSameSteps) {
  const std::string adam = read_bytes(made_by_python() / "AdamW.scaled"),
                    sgd = read_bytes(made_by_python() / "SGD.scaled");
  const auto same = [](const std::vector<double>& ours, const std::string& pythons) {
    return std::string_view(reinterpret_cast<const char*>(ours.data()), ours.size() * sizeof(double)) ==
           pythons;
  };
  spawn(
      [&](Job& job) {
        const auto make_adam = [](const auto& mine) {
          return std::make_unique<FusedAdamW>(mine, optim::AdamWOptions(1e-2).weight_decay(0.2));
        };
        const GradScalerOptions options{.growth_interval = 4};
        require(same(train_scaled(job, options, scratch_ / "adam", make_adam), adam), "FusedAdamW");
        const auto sharded = train_scaled(job, options, scratch_ / "zero", [&](const Parameters& parameters) {
          return std::make_unique<ZeroRedundancyOptimizer>(parameters, make_adam, job);
        });
        require(same(sharded, adam), "ZeroRedundancyOptimizer");
        const auto plain = train_scaled(
            job, {.init_scale = 1000, .growth_factor = 1.5, .backoff_factor = 0.3, .growth_interval = 3},
            scratch_ / "sgd", [](const Parameters& parameters) {
              return std::make_unique<optim::SGD>(parameters, optim::SGDOptions(1e-2).momentum(0.9));
            });
        require(same(plain, sgd), "LibTorch's SGD");
      },
      2);
}

// Makes the steps `first` to `last` - 1 and saves.
template <class Optimizer>
std::vector<double> train(Model& model, Optimizer& optimizer, const Group& group,
                          const std::string& directory, int first, int last) {
  NoiseDataset dataset(64);
  DataLoader<Example> loader{dataset, {.batch_size = 8}, 0, 1};
  Checkpointer checkpoints(group, {.every = 1000, .directory = directory});
  TrainState state(model, optimizer, loader);
  require_equal(checkpoints.restore(state), std::int64_t{first}, "step");
  for (int step = first; step < last; ++step) {
    model.set_grads(step, /*late=*/true);
    optimizer.step();
    checkpoints.step(state);
    if (step + 1 == 5) optimizer.param_groups()[1].options().set_lr(2e-3);
  }
  require(checkpoints.save(state), "a save");
  return model.values();
}

TEST_F(OptimizerParity, SharedOutStateGivesTheSameParameters) {
  for (const auto& [name, make] : kOptimizers) {
    if (name != "FusedAdamAmsgrad" && name != "FusedSGDMomentum")
      continue;  // the optimizers with the most state, one of each kind
    spawn(
        [&](Job& job) {
          Model model;
          const auto plain = make(model.groups(make));
          write_doubles(scratch_ / (name + ".expected"),
                        train(model, *plain, job, scratch_ / (name + ".plain"), 0, 12));
        },
        1);
    const std::string saved = scratch_ / name;
    const auto go_on = [&](int ranks, const std::string& directory, int first, int last) {
      spawn(
          [&](Job& job) {
            Model model;
            ZeroRedundancyOptimizer optimizer(model.groups(make), make, job);
            // One rank has only the largest parameter; the next ranks have the others.
            const auto has = [&](std::size_t group) {
              return optimizer.local().param_groups()[group].params().size();
            };
            if (ranks >= 3)
              require_equal(has(0) + has(1), std::size_t{job.rank() < 3 ? 1U : 0U}, "parameters of a rank");
            const auto values = train(model, optimizer, job, directory, first, last);
            require_equal(optimizer.local().state().size(), has(0) + has(1), "states of a rank");
            require_equal(optimizer.param_groups()[1].options().get_lr(), 2e-3,
                          "the checkpoint's learning rate");
            if (last == 12) {
              std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
              require(bytes == read_bytes(scratch_ / (name + ".expected")),
                      fmt::format("{} continues on {} ranks", name, ranks));
            }
          },
          ranks);
    };
    go_on(4, saved, 0, 6);
    for (const int ranks : {2, 3}) {
      fs::copy(saved, scratch_ / fmt::format("{}.{}", name, ranks), fs::copy_options::recursive);
      go_on(ranks, scratch_ / fmt::format("{}.{}", name, ranks), 6, 12);
    }
    // One rank continues without ZeroRedundancyOptimizer, from a checkpoint that LibTorch's optimizers can
    // read too.
    spawn(
        [&](Job& job) {
          Model model;
          const auto plain = make(model.groups(make));
          const auto values = train(model, *plain, job, saved, 6, 12);
          std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
          require(bytes == read_bytes(scratch_ / (name + ".expected")), name + " continues without it");
        },
        1);
  }
}

TEST_F(OptimizerParity, FusedOptimizersLoadCheckpointsOfLibTorchs) {
  Training training(directory_);
  training.train(3);
  ASSERT_TRUE(training.checkpoints.save(training.state));
  Training fused(directory_, [](Parameters parameters) {
    return std::make_unique<FusedAdam>(std::move(parameters), optim::AdamOptions(5.0));
  });
  ASSERT_EQ(fused.checkpoints.restore(fused.state), 3);
  const at::Tensor first = fused.optimizer->param_groups()[0].params()[0];
  const auto& state =
      static_cast<const optim::AdamParamState&>(*fused.optimizer->state().at(first.unsafeGetTensorImpl()));
  EXPECT_EQ(state.step(), 3);
  EXPECT_TRUE(state.max_exp_avg_sq().defined());
  EXPECT_EQ(fused.optimizer->param_groups()[0].options().get_lr(), 1e-2);
  // The kernels round in another order.
  for (Training* each : {&training, &fused}) {
    torch::manual_seed(4);  // the same dropout for both
    each->train(2);
  }
  const at::Tensor difference = first - training.optimizer->param_groups()[0].params()[0];
  EXPECT_LT(difference.abs().max().item<double>(), 1e-5);
}

TEST_F(OptimizerParity, RefusesWhatItCannotShareOut) {
  spawn(
      [](Job& job) {
        const auto refusal = [&](const Parameters& parameters, const Make& make) {
          try {
            ZeroRedundancyOptimizer(parameters, make, job);
          } catch (const std::invalid_argument& error) {
            return std::string(error.what());
          }
          return std::string("none");
        };
        const at::Tensor parameter = at::zeros({2}).requires_grad_();
        require_equal(
            refusal({parameter}, [](const Groups& groups) { return std::make_unique<optim::LBFGS>(groups); }),
            std::string(
                "ZeroRedundancyOptimizer: LBFGS steps all parameters together, which ranks cannot share out"),
            "LBFGS");
        require_equal(refusal({parameter, parameter}, of<FusedSGD>(optim::SGDOptions(0.1))),
                      std::string("ZeroRedundancyOptimizer: a parameter is listed twice"), "twice");
        FusedSGD optimizer(Parameters{parameter}, optim::SGDOptions(0.1));
        parameter.mutable_grad() = at::ones({2}).to_sparse();
        try {
          optimizer.step();
        } catch (const std::invalid_argument& error) {
          require_equal(std::string(error.what()),
                        std::string("a parameter of shape [2] has a sparse gradient; "
                                    "fused optimizers do not support that"),
                        "sparse");
          return;
        }
        throw std::runtime_error("a sparse gradient was accepted");
      },
      1);
}

}  // namespace
}  // namespace muster
