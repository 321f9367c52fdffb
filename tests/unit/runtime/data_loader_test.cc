#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/data_loader.h>
#include <set>
#include <stdexcept>
#include <torch/torch.h>

namespace muster {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Example i is the number i.
class Numbers : public Dataset {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  Example get(std::int64_t index) const override {
    if (index == bad_) throw std::runtime_error("torn image");
    ++reads_;
    return {.data = at::full({2}, static_cast<double>(index)), .target = at::scalar_tensor(index, at::kLong)};
  }
  void spoil(std::int64_t index) { bad_ = index; }
  std::int64_t reads() const { return reads_; }

 private:
  std::int64_t size_;
  std::int64_t bad_ = -1;
  mutable std::atomic<std::int64_t> reads_ = 0;
};

std::vector<std::int64_t> numbers(const Batch& batch) {
  const at::Tensor target = batch.target.contiguous();
  return {target.data_ptr<std::int64_t>(), target.data_ptr<std::int64_t>() + target.numel()};
}

using Batches = std::vector<std::vector<std::int64_t>>;
Batches rest(DataLoader& loader, std::int64_t epochs) {
  Batches all;
  for (auto& batch : loader.epochs(epochs)) all.push_back(numbers(batch));
  return all;
}

TEST(DataLoader, GivesTheSameBatchesWithAnyNumberOfWorkers) {
  const Numbers dataset(103);
  DataLoader alone(dataset, {.batch_size = 8, .shuffle = true, .seed = 9}, 1, 3);
  const Batches expected = rest(alone, 3);
  ASSERT_EQ(expected.size(), 15u);  // 35 examples per rank and epoch
  EXPECT_EQ(expected[4].size(), 3u);
  EXPECT_NE(expected[0], expected[5]) << "the epochs have different orders";
  for (const int workers : {1, 2, 7}) {
    DataLoader loader(dataset, {.batch_size = 8, .shuffle = true, .num_workers = workers, .seed = 9}, 1, 3);
    EXPECT_EQ(rest(loader, 3), expected) << workers << " workers";
  }
}

TEST(DataLoader, StacksDataAndTargets) {
  const Numbers dataset(4);
  DataLoader loader(dataset, {.batch_size = 2}, 0, 1);
  for (auto& batch : loader.epochs(1)) {
    EXPECT_EQ(batch.data.sizes(), (std::vector<std::int64_t>{2, 2}));
    EXPECT_TRUE(batch.data.select(1, 0).to(at::kLong).equal(batch.target));
  }
}

TEST(DataLoader, EpochAndBatchAreThoseOfTheBatchInTheLoop) {
  const Numbers dataset(4);
  DataLoader loader(dataset, {.batch_size = 2}, 0, 1);
  std::vector<std::pair<std::int64_t, std::int64_t>> places;
  for ([[maybe_unused]] auto& batch : loader.epochs(2)) places.emplace_back(loader.epoch(), loader.batch());
  EXPECT_THAT(places,
              testing::ElementsAre(std::pair(0, 0), std::pair(0, 1), std::pair(1, 0), std::pair(1, 1)));
}

TEST(DataLoader, ResumesAfterExactlyWhatTrainingConsumed) {
  const Numbers dataset(50);
  const DataLoaderOptions options{.batch_size = 4, .shuffle = true, .num_workers = 2};
  DataLoader undisturbed(dataset, options, 0, 2);
  const Batches expected = rest(undisturbed, 2);
  for (std::size_t stop = 0; stop <= expected.size(); ++stop) {
    DataLoader first(dataset, options, 0, 2);
    Batches seen;
    if (stop > 0) {
      for (auto& batch : first.epochs(2)) {
        seen.push_back(numbers(batch));
        if (seen.size() == stop) break;  // others are loaded ahead by now
      }
    }
    DataLoader second(dataset, options, 0, 2);
    second.load_state(first.state());
    const Batches more = rest(second, 2);
    seen.insert(seen.end(), more.begin(), more.end());
    EXPECT_EQ(seen, expected) << "stopped after " << stop;
  }
}

TEST(DataLoader, ResumingReadsNothingOfWhatIsPassed) {
  const Numbers dataset(1000);
  DataLoader loader(dataset, {.batch_size = 10}, 0, 1);
  DataLoaderState state = loader.state();
  state.batch = 99;
  loader.load_state(state);
  rest(loader, 1);
  EXPECT_EQ(dataset.reads(), 10);
}

TEST(DataLoader, LoadingAStateWhileWorkersRunStartsThemAnew) {
  const Numbers dataset(40);
  DataLoader loader(dataset, {.batch_size = 4, .num_workers = 3}, 0, 1);
  const DataLoaderState start = loader.state();
  for ([[maybe_unused]] auto& batch : loader.epochs(1)) break;
  loader.load_state(start);
  EXPECT_EQ(rest(loader, 1).front(), (std::vector<std::int64_t>{0, 1, 2, 3}));
}

TEST(DataLoader, GoesOnAtTheSamePlaceWithAnotherWorldSize) {
  const Numbers dataset(96);
  DataLoader four(dataset, {.batch_size = 4, .shuffle = true}, 0, 4);
  DataLoaderState state = four.state();
  state.batch = 3;  // 48 examples
  std::multiset<std::int64_t> seen;
  for (int rank = 0; rank < 4; ++rank) {
    DataLoader part(dataset, {.batch_size = 4, .shuffle = true}, rank, 4);
    int taken = 0;
    for (auto& batch : part.epochs(1)) {
      for (const std::int64_t number : numbers(batch)) seen.insert(number);
      if (++taken == 3) break;
    }
  }
  for (int rank = 0; rank < 3; ++rank) {
    DataLoader part(dataset, {.batch_size = 8, .shuffle = true}, rank, 3);
    part.load_state(state);
    for (const auto& batch : rest(part, 1)) seen.insert(batch.begin(), batch.end());
  }
  EXPECT_EQ(seen.size(), 96u);
  for (std::int64_t number = 0; number < 96; ++number) EXPECT_EQ(seen.count(number), 1u) << number;
}

TEST(DataLoader, RefusesAStateThatDoesNotFit) {
  const Numbers dataset(96);
  DataLoader loader(dataset, {.batch_size = 5, .shuffle = true}, 0, 3);
  DataLoaderState state = loader.state();
  state.batch = 1;
  state.world_size = 4;
  EXPECT_THAT(
      [&] { loader.load_state(state); },
      ThrowsMessage<std::invalid_argument>(HasSubstr("example 20 of epoch 0: with 3 ranks of batch size 5")));
  state = loader.state();
  state.seed = 1;
  EXPECT_THAT([&] { loader.load_state(state); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("seed 1, and here it is 0")));
  state = loader.state();
  state.dataset_size = 95;
  EXPECT_THROW(loader.load_state(state), std::invalid_argument);
}

TEST(DataLoader, AnExampleThatCannotBeReadIsNamedInTheTrainingThread) {
  Numbers dataset(40);
  dataset.spoil(13);
  for (const int workers : {0, 3}) {
    DataLoader loader(dataset, {.batch_size = 4, .num_workers = workers}, 0, 1);
    int batches = 0;
    const auto train = [&] {
      for ([[maybe_unused]] auto& batch : loader.epochs(1)) ++batches;
    };
    EXPECT_THAT(train,
                ThrowsMessage<std::runtime_error>(HasSubstr(
                    "epoch 0, batch 3 (examples 12, 13, 14, 15): cannot load example 13: torn image")));
    EXPECT_EQ(batches, 3) << "the batches before it are given";
  }
}

TEST(DataLoader, NamesTheOptionThatCannotBeUsed) {
  const Numbers dataset(10);
  EXPECT_THAT([&] { DataLoader(dataset, {.batch_size = 0}, 0, 1); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("batch_size = 0 must be at least 1")));
  EXPECT_THAT([&] { DataLoader(dataset, {.batch_size = 6, .drop_last = true}, 0, 2); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("10 examples for 2 ranks give no batch of 6")));
}

TEST(DataLoader, WorkersWaitForTrainingWhenTheyAreFarAhead) {
  const Numbers dataset(1000);
  DataLoader loader(dataset, {.batch_size = 1, .num_workers = 2, .prefetch_factor = 3}, 0, 1);
  std::int64_t taken = 0;
  for ([[maybe_unused]] auto& batch : loader.epochs(1)) {
    ++taken;
    EXPECT_LE(dataset.reads(), taken + 6);
    if (taken == 200) break;
  }
}

}  // namespace
}  // namespace muster
