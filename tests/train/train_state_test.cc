// Values that a program adds to its state, and values of another kind that are refused.
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <set>

#include "tests/train/checkpoint_fixture.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using TrainStateTest = CheckpointTest;

TEST_F(TrainStateTest, AValueOrTensorOfAnotherTypeIsRefused) {
  save_two();
  const auto refusal = [&](const auto& add) {
    Training training(directory_);
    TrainState state(*training.net, *training.optimizer, training.loader);
    add(state);
    try {
      training.checkpoints.restore(state);
      return std::string("none");
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
  };
  std::int64_t integer = 0;
  double real = 0;
  EXPECT_THAT(refusal([&](TrainState& state) { state.add("best", integer); }),
              HasSubstr("its user.best is 'double:0.2', not int64:<number>"));
  EXPECT_THAT(refusal([&](TrainState& state) { state.add("patience", real); }),
              HasSubstr("its user.patience is 'int64:2', not double:<number>"));
  EXPECT_THAT(refusal([](TrainState& state) { state.add("average", at::zeros({}, at::kDouble)); }),
              HasSubstr("its user.average is of the type Float, not Double"));
  EXPECT_EQ(refusal([&](TrainState& state) { state.add("best", real); }), "none");
  EXPECT_EQ(real, 0.2);
}

TEST_F(TrainStateTest, RestoresNumbersExactly) {
  for (const double value : {0.1, -1e-310, 1e300, -std::numeric_limits<double>::infinity()}) {
    Training saved(directory_, make_adam, {.keep = 100, .start_over = true});
    saved.train(1);
    saved.best = value;
    saved.patience = std::numeric_limits<std::int64_t>::min();
    ASSERT_TRUE(saved.checkpoints.save(saved.state));
    Training restored(directory_);
    restored.checkpoints.restore(restored.state);
    EXPECT_EQ(restored.best, value);
    EXPECT_EQ(restored.patience, saved.patience);
  }
}

// Values that a program may keep in addition to the model.
struct Extras {
  bool warm = false;
  int round = 0;
  float best = 0;
  std::string stage;
  std::vector<bool> seen;
  std::vector<int> sizes;
  std::vector<std::int64_t> counts;
  std::vector<float> ratios;
  std::vector<double> losses;
  std::vector<std::string> notes;
  bool operator==(const Extras&) const = default;

  void add_to(TrainState& state) {
    state.add("warm", warm);
    state.add("round", round);
    state.add("best", best);
    state.add("stage", stage);
    state.add("seen", seen);
    state.add("sizes", sizes);
    state.add("counts", counts);
    state.add("ratios", ratios);
    state.add("losses", losses);
    state.add("notes", notes);
  }
};

// Saves one set of values and loads it over another.
Extras round_trip(const std::string& directory, Extras saved, Extras loaded) {
  {
    Training training(directory, make_adam, {.keep = 1, .start_over = true});
    TrainState state(*training.net, *training.optimizer, training.loader);
    saved.add_to(state);
    training.checkpoints.step(state);
    EXPECT_TRUE(training.checkpoints.save(state));
  }
  Training training(directory);
  TrainState state(*training.net, *training.optimizer, training.loader);
  loaded.add_to(state);
  EXPECT_EQ(training.checkpoints.restore(state), 1);
  return loaded;
}

TEST_F(TrainStateTest, RestoresValuesTextsAndVectorsExactly) {
  const Extras full{.warm = true,
                    .round = std::numeric_limits<int>::min(),
                    .best = -std::numeric_limits<float>::infinity(),
                    .stage = "second: \"\xc3\xa9\"\n",
                    .seen = {true, false, true},
                    .sizes = {1, -2},
                    .counts = {std::numeric_limits<std::int64_t>::max()},
                    .ratios = {0.1F, std::numeric_limits<float>::denorm_min()},
                    .losses = {0.1, 1e300, -0.0},
                    .notes = {"", "string:", "a,b"}};
  EXPECT_EQ(round_trip(directory_, full, {}), full);
  EXPECT_EQ(round_trip(directory_, {}, full), Extras()) << "empty values too";
}

TEST_F(TrainStateTest, AValueOfAnotherKindIsRefused) {
  Training saving(scratch_ / "kinds");
  TrainState saved(*saving.net, *saving.optimizer, saving.loader);
  std::int64_t large = std::int64_t{1} << 40;
  std::string text = "three";
  std::vector<float> list{1, 2};
  saved.add("large", large);
  saved.add("text", text);
  saved.add("list", list);
  ASSERT_TRUE(saving.checkpoints.save(saved));
  const auto refusal = [&](const auto& add) {
    Training training(scratch_ / "kinds");
    TrainState state(*training.net, *training.optimizer, training.loader);
    add(state);
    try {
      training.checkpoints.restore(state);
      return std::string("none");
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
  };
  int small = 0;
  bool flag = false;
  std::vector<double> doubles;
  std::vector<std::string> texts;
  EXPECT_THAT(refusal([&](TrainState& state) { state.add("large", small); }),
              HasSubstr("its user.large is 'int64:1099511627776', not int64:<number> of 32 bits"));
  EXPECT_THAT(refusal([&](TrainState& state) { state.add("large", flag); }), HasSubstr("not bool:<number>"));
  EXPECT_THAT(refusal([&](TrainState& state) { state.add("large", text); }),
              HasSubstr("its user.large does not begin with string:"));
  EXPECT_THAT(refusal([&](TrainState& state) { state.add("text", texts); }),
              HasSubstr("its user.text does not begin with strings:"));
  EXPECT_THAT(refusal([&](TrainState& state) { state.add("list", doubles); }),
              HasSubstr("its user.list is of the type Float, not Double"));
}

TEST_F(TrainStateTest, AnotherModuleResumesExactlyAndKeepsItsShapes) {
  std::string expected;
  {
    Training training(directory_);
    torch::nn::BatchNorm1d teacher(5);
    training.state.add("teacher", teacher);
    teacher->forward(torch::randn({8, 5}));
    torch::nn::init::constant_(teacher->weight, 3);
    expected = bytes_of(*teacher);
    training.train(1);
    ASSERT_TRUE(training.checkpoints.save(training.state));
    torch::nn::init::constant_(teacher->weight, NAN);
    training.checkpoints.step(training.state);
    EXPECT_FALSE(training.checkpoints.save(training.state))
        << "the other module's parameters must be finite too";
    EXPECT_THAT([&] { training.state.add("a.b", teacher); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("'a.b': a module's name may have no dot")));
  }
  {
    Training training(directory_);
    const auto teacher = std::make_shared<torch::nn::BatchNorm1dImpl>(5);
    training.state.add("teacher", teacher);
    EXPECT_EQ(training.checkpoints.restore(training.state), 1);
    EXPECT_EQ(bytes_of(*teacher), expected);
  }
  Training training(directory_);
  torch::nn::BatchNorm1dImpl wider(6);
  training.state.add("teacher", wider);
  EXPECT_THAT(
      [&] { training.checkpoints.restore(training.state); },
      ThrowsMessage<std::runtime_error>(HasSubstr("its module.teacher.weight has the shape [5], not [6]")));
}

TEST_F(TrainStateTest, APlateauSchedulerResumesExactly) {
  using Plateau = torch::optim::ReduceLROnPlateauScheduler;
  const std::vector<float> losses{3, 2, 2.1F, 2.2F, 2.3F, 2.4F, 1, 1.1F, 1.2F, 1.3F, 1.4F, 1.5F, 1.6F, 1.7F};
  const auto rates = [&](Training& training, Plateau& scheduler, std::size_t from, std::size_t to) {
    std::vector<double> rates;
    for (std::size_t i = from; i < to; ++i) {
      scheduler.step(losses[i]);
      rates.push_back(training.optimizer->param_groups()[0].options().get_lr());
    }
    return rates;
  };
  const auto make = [](Training& training) {
    return Plateau(*training.optimizer, Plateau::min, 0.5, /*patience=*/1, 1e-4, Plateau::rel,
                   /*cooldown=*/1);
  };
  Training undisturbed(scratch_ / "undisturbed");
  Plateau whole = make(undisturbed);
  const std::vector<double> expected = rates(undisturbed, whole, 0, losses.size());
  ASSERT_GT(std::set(expected.begin(), expected.end()).size(), 3U) << "the rate falls several times";
  for (std::size_t stop = 0; stop < losses.size(); ++stop) {
    const std::string directory = scratch_ / std::to_string(stop);
    {
      Training first(directory);
      Plateau scheduler = make(first);
      first.state.add("plateau", scheduler);
      rates(first, scheduler, 0, stop);
      ASSERT_TRUE(first.checkpoints.save(first.state));
    }
    Training second(directory);
    Plateau scheduler = make(second);
    second.state.add("plateau", scheduler);
    second.checkpoints.restore(second.state);
    EXPECT_EQ(rates(second, scheduler, stop, losses.size()),
              std::vector<double>(expected.begin() + static_cast<std::ptrdiff_t>(stop), expected.end()))
        << stop;
  }
}

TEST_F(TrainStateTest, RefusesANameThatIsTaken) {
  Training training(directory_);
  EXPECT_THAT([&] { training.state.add("best", training.patience); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("'best' has been added already")));
}

}  // namespace
}  // namespace muster
