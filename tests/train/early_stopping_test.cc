// When a training stops early. It must stop at the same epoch with the same best model if ranks were killed.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <random>

#include "tests/require.h"
#include "tests/scratch_directory.h"
#include "tests/train/training.h"
#include "tests/warnings.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Mode = EarlyStoppingOptions::Mode;

// The number of epochs after which it stops; 0: it does not stop.
std::int64_t stops_after(const Group& group, const EarlyStoppingOptions& options,
                         const std::vector<double>& values) {
  EarlyStopping stopping(group, options);
  for (const double value : values)
    if (stopping.step(value)) return stopping.epochs();
  return 0;
}

TEST(EarlyStopping, DependsOnPatienceDeltaModeAndFiniteness) {
  const double nan = std::nan("");
  spawn(
      [&](Job& job) {
        const auto after = [&](const EarlyStoppingOptions& options, const std::vector<double>& values) {
          return stops_after(job, options, values);
        };
        require_equal(after({}, {3, 2, 2, 2.5, 1.9, 2, 2, 1.9, 1}), std::int64_t{8}, "patience 3");
        require_equal(after({.patience = 1}, {3, 2, 2}), std::int64_t{3}, "patience 1");
        require_equal(after({.patience = 2, .min_delta = 0.5}, {3, 2.6, 2.5, 2.4}), std::int64_t{3},
                      "min_delta");
        require_equal(after({.mode = Mode::kMax, .patience = 2, .min_delta = 0.5}, {1, 2, 1, 2.6, 3, 2.9}),
                      std::int64_t{6}, "greatest");
        require_equal(after({}, {3, nan, 2}), std::int64_t{2}, "NaN");
        require_equal(after({.patience = 2, .check_finite = false}, {nan, nan}), std::int64_t{2}, "only NaN");
        require_equal(after({.check_finite = false}, {3, nan, 2, nan, 1}), std::int64_t{0}, "some NaN");
      },
      1);
}

TEST(EarlyStopping, Rank0LogsOnceWhyItStops) {
  testing::internal::CaptureStderr();
  spawn(
      [](Job& job) {
        EarlyStopping stopping(job, {.patience = 1});
        for (const double value : {3.0, 2.0, 2.5, 2.5}) stopping.step(value);
      },
      2);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "muster: training stops early: no improvement in 1 epoch on 2 of epoch 1\n");
}

TEST(EarlyStopping, ReportsThatThereWasNoFiniteValue) {
  spawn(
      [](Job& job) {
        EarlyStopping stopping(job, {.patience = 1, .check_finite = false});
        stopping.step(std::nan(""));
        require_equal(stopping.reason(), std::string("the metric has had no finite value in 1 epoch"),
                      "reason");
      },
      1);
}

TEST(EarlyStopping, AllRanksAgreeOnTheMeanOfTheirValues) {
  spawn(
      [](Job& job) {
        EarlyStopping stopping(job, {.patience = 2});
        stopping.step(0.1 * (job.rank() + 1));
        require_equal(stopping.last(), (0.1 * 1 + 0.1 * 2 + 0.1 * 3) / 3, "mean");
        stopping.step(0.1);  // adding three of them would not give 0.3
        require_equal(stopping.last(), 0.1, "equal values");
        // Alone, one of the ranks would continue.
        stopping.step(job.rank() == 0 ? 0 : 1);
        require(stopping.step(job.rank() == 0 ? 0 : 1), "all stop");
        require_equal(stopping.reason(), std::string("no improvement in 2 epochs on 0.1 of epoch 1"),
                      "reason");
        require(stopping.step(0), "it stays stopped");
      },
      3);
}

TEST(EarlyStopping, RefusesWrongOptions) {
  spawn(
      [](Job& job) {
        EXPECT_THAT(
            [&] { EarlyStopping(job, {.patience = 0}); },
            ThrowsMessage<std::invalid_argument>("EarlyStopping: patience is 0; it must be at least 1"));
        EXPECT_THAT(
            [&] { EarlyStopping(job, {.min_delta = -1}); },
            ThrowsMessage<std::invalid_argument>("EarlyStopping: min_delta is -1; it must be at least 0"));
        require(!testing::Test::HasFailure(), "refusals");
      },
      1);
}

struct Plan {
  std::string checkpoints;
  std::int64_t kill_at = 0;  // step; 0: never
  std::string result;
};

template <class Model>
double loss_of_other_noise(const Job& job, Model& model) {
  const NoiseDataset dataset(160);
  const torch::NoGradGuard no_grad;
  MeanMetric loss(job);
  model.eval();
  for (std::int64_t i = 96 + job.rank(); i < 160; i += job.world_size()) {
    const Example example = dataset.get(i);
    loss.update(torch::nn::functional::cross_entropy(model.forward(example.data.unsqueeze(0)),
                                                     example.target.unsqueeze(0)));
  }
  model.train();
  return loss.compute();
}

// Overfits to noise, so that the loss of other noise soon gets worse.
void train(Job& job, const Plan& plan) {
  torch::set_num_threads(1);
  torch::manual_seed(7 + static_cast<std::uint64_t>(job.rank()));
  const NoiseDataset dataset(96);
  auto model = DistributedDataParallel(SmallNet(), job);
  FusedAdamW optimizer(model.parameters(), torch::optim::AdamWOptions(2e-2));
  DataLoader loader(dataset, {.batch_size = 8, .shuffle = true, .seed = 3}, job);
  Checkpointer checkpoints(job, {.every = loader.batches_per_epoch(),
                                 .directory = plan.checkpoints,
                                 .keep = 2,
                                 .keep_best = 1,
                                 .best_by = "loss",
                                 .best = CheckpointerOptions::Best::kLeast});
  TrainState state(model, optimizer, loader);
  EarlyStopping stopping(job, {.patience = 3});
  state.add("early_stopping", stopping);
  checkpoints.restore(state);
  for (auto& batch : loader.epochs(30)) {
    if (stopping.should_stop()) break;
    train_one(model, optimizer, batch);
    if (loader.batch() + 1 == loader.batches_per_epoch()) {
      stopping.step(loss_of_other_noise(job, model));
      checkpoints.report("loss", stopping.last());
    }
    checkpoints.step(state);
    if (checkpoints.steps() == plan.kill_at && job.rank() == 1) std::raise(SIGKILL);
  }
  require(checkpoints.save(state), "the last save");
  require_equal(checkpoints.steps(), stopping.epochs() * loader.batches_per_epoch(), "steps");
  SmallNet best;
  const LoadedModel loaded = load_model(best, plan.checkpoints, {.best = true});
  require_equal(loaded.step, (stopping.best_epoch() + 1) * loader.batches_per_epoch(),
                "step of the best model");
  if (job.rank() == 0)
    write_bytes(plan.result,
                fmt::format("{} epochs, {}\n", stopping.epochs(), stopping.reason()) + bytes_of(best));
}

TEST(EarlyStopping, KillsChangeNeitherTheEpochNorTheBestModel) {
  ScratchDirectory scratch;
  const auto run = [&](const std::string& name, std::int64_t kill_at) {
    spawn([&](Job& job) { train(job, {scratch / (name + ".checkpoints"), kill_at, scratch / name}); }, 4);
  };
  run("undisturbed", 0);
  const std::string expected = read_bytes(scratch / "undisturbed");
  ASSERT_THAT(expected, HasSubstr("no improvement in 3 epochs on"));
  const auto seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (std::int64_t killed_at = 1 + static_cast<std::int64_t>(random() % 4); killed_at < 12;
       killed_at += 1 + random() % 5)
    EXPECT_THROW(run("killed", killed_at), std::runtime_error) << "killed at step " << killed_at;
  run("killed", 0);
  EXPECT_EQ(read_bytes(scratch / "killed").substr(0, 60), expected.substr(0, 60));
  EXPECT_TRUE(read_bytes(scratch / "killed") == expected);
  run("killed", 0);  // it has stopped already, and makes no step more
  EXPECT_TRUE(read_bytes(scratch / "killed") == expected);
}

// A loop that asks only after its own step() trains another epoch, and says what to change.
TEST(EarlyStopping, WarnsOnceIfATrainingThatHadStoppedTrainsOn) {
  const ScratchDirectory scratch;
  spawn(
      [&](Job& job) {
        const auto train = [&](bool asks_first) {
          EarlyStopping stopping(job, {.patience = 1});
          TrainState state;
          state.add("early_stopping", stopping);
          Checkpointer checkpoints(job, {.every = 1, .directory = scratch / "checkpoints"});
          checkpoints.restore(state);
          for (int epoch = 0; epoch < 3 && !(asks_first && stopping.should_stop()); ++epoch) stopping.step(1);
          checkpoints.step(state);
          require(checkpoints.save(state), "a save");
          return stopping.epochs();
        };
        const Warnings warnings;
        require_equal(train(true), std::int64_t{2}, "epochs of the first start");
        require_equal(train(true), std::int64_t{2}, "epochs of the second start");
        require(std::ranges::none_of(warnings.lines(),
                                     [](const auto& line) { return line.contains("trains on"); }),
                "no warning yet");
        train(false);
        const auto count = std::ranges::count_if(warnings.lines(), [](const auto& line) {
          return line.contains("the training had stopped before this start, and trains on: end its loop");
        });
        require_equal(count, std::ptrdiff_t{1}, "warnings");
      },
      1);
}

// The value that stops the training cannot be compared, so no later checkpoint is taken for the best.
TEST(EarlyStopping, TheEpochThatStopsWithNaNIsNotTheBest) {
  const ScratchDirectory scratch;
  spawn(
      [&](Job& job) {
        const NoiseDataset dataset(16);
        SmallNet net;
        torch::optim::SGD optimizer(net.parameters(), 0.1);
        DataLoader<Example> loader{dataset, {.batch_size = 8}, 0, 1};
        TrainState state(net, optimizer, loader);
        EarlyStopping stopping(job);
        Checkpointer checkpoints(job, {.every = 1,
                                       .directory = scratch / "checkpoints",
                                       .keep_best = 1,
                                       .best_by = "loss",
                                       .best = CheckpointerOptions::Best::kLeast});
        for (const double loss : {2.0, 1.0, std::nan("")}) {
          require(!stopping.should_stop(), "it goes on");
          stopping.step(loss);
          checkpoints.report("loss", stopping.last());
          checkpoints.step(state);
        }
        require(checkpoints.save(state) && stopping.should_stop(), "it stops");
        require_equal(load_model(net, scratch / "checkpoints", {.best = true}).step, std::int64_t{2}, "best");
      },
      1);
}

TEST(LoadModel, RefusesAnEmptyPath) {
  SmallNet net;
  EXPECT_THAT([&] { load_model(net, ""); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("the path is empty")));
}

TEST(LoadModel, ExplainsWhyThereIsNoBestModel) {
  ScratchDirectory scratch;
  spawn(
      [&](Job& job) {
        const NoiseDataset dataset(16);
        SmallNet net;
        torch::optim::SGD optimizer(net.parameters(), 0.1);
        DataLoader<Example> loader{dataset, {.batch_size = 8}, 0, 1};
        TrainState state(net, optimizer, loader);
        Checkpointer checkpoints(job, {.directory = scratch / "none"});
        require(checkpoints.save(state), "a save");
        const auto refusal = [&](const LoadModelOptions& options) {
          try {
            load_model(net, scratch / "none", options);
          } catch (const std::exception& error) {
            return std::string(error.what());
          }
          return std::string("none");
        };
        require(
            refusal({.best = true})
                .ends_with(
                    "its checkpoints do not say which of them is the best; set CheckpointerOptions::best_by"),
            refusal({.best = true}));
        require_equal(refusal({.step = 0, .best = true}),
                      std::string("load_model: step and best exclude each other"), "both");
      },
      1);
}

}  // namespace
}  // namespace muster
