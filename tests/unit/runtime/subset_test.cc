#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/data/cached_dataset.h>
#include <muster/data/chain_dataset.h>
#include <muster/data/data_loader.h>
#include <muster/data/stack_dataset.h>
#include <muster/data/subset.h>
#include <muster/data/tensor_dataset.h>
#include <muster/data/transformed.h>
#include <muster/data/window_dataset.h>
#include <stdexcept>
#include <thread>
#include <torch/torch.h>

namespace muster {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Indices = std::vector<std::int64_t>;

// Sample i is first + i, and a random number.
class Numbers : public Dataset<std::pair<std::int64_t, double>> {
 public:
  Numbers(std::int64_t first, std::int64_t size) : first_(first), size_(size) {}
  std::int64_t size() const override { return size_; }
  std::pair<std::int64_t, double> get(std::int64_t index) const override {
    if (index == 13) throw std::runtime_error("torn");
    ++reads;
    return {first_ + index, sample_random().uniform()};
  }
  std::string name() const override { return "numbers from " + std::to_string(first_); }
  mutable std::atomic<int> reads = 0;

 private:
  std::int64_t first_, size_;
};

// These classes do not keep a dataset alive, so they do not accept temporaries.
using Concat = ConcatDataset<std::pair<std::int64_t, double>>;
template <class Whole>
concept Splits = requires(Whole&& whole) {
  random_split(std::forward<Whole>(whole), std::vector<int>{1, 2}, 0);
} && requires(Whole&& whole) { random_split(std::forward<Whole>(whole), {0.5, 0.5}); };
static_assert(Splits<const Numbers&> && !Splits<Numbers>);
static_assert(std::is_constructible_v<Concat, const Numbers&, Numbers&, const Numbers&>);
static_assert(!std::is_constructible_v<Concat, Numbers, const Numbers&>);
static_assert(!std::is_constructible_v<Concat, const Numbers&, Numbers>);
static_assert(!std::is_constructible_v<Concat, const Numbers&, const Numbers&, Numbers>);

std::vector<std::int64_t> list(const at::Tensor& tensor) {
  return {tensor.data_ptr<std::int64_t>(), tensor.data_ptr<std::int64_t>() + tensor.numel()};
}

template <class Sample>
void expect_refused(const Dataset<Sample>& dataset, std::int64_t index) {
  const auto refusal = ThrowsMessage<std::out_of_range>(
      fmt::format("index {} is out of range: {} has {} samples", index, dataset.name(), dataset.size()));
  EXPECT_THAT([&] { dataset.get(index); }, refusal);
  EXPECT_THAT([&] { dataset.get_batch(std::vector<std::int64_t>{0, index}); }, refusal);
}

TEST(Datasets, AllRefuseAnIndexOutOfRange) {
  const Numbers numbers(100, 10);
  const TensorDataset rows(at::arange(10), at::arange(10));
  const auto none = [&](const auto& dataset) {
    for (const std::int64_t index : {std::int64_t{-1}, dataset.size(), std::int64_t{1} << 40})
      expect_refused(dataset, index);
  };
  none(rows);
  none(Subset(numbers, {7, 0, 7}));
  none(ConcatDataset(numbers, numbers));
  none(CachedDataset(numbers, 1000));
  none(StackDataset(numbers, rows));
  none(WindowDataset(at::arange(10), {.length = 3}));
  none(transformed(numbers, [](const std::pair<std::int64_t, double>& sample) { return sample.first; }));
}

TEST(Subset, HasTheSamplesWithTheseIndices) {
  const Numbers numbers(100, 10);
  const Subset subset(numbers, {7, 0, 7});
  ASSERT_EQ(subset.size(), 3);
  EXPECT_EQ(subset.get(1).first, 100);
  const Indices order{2, 1};
  EXPECT_THAT(list(subset.get_batch(order).first), ElementsAre(107, 100));
}

TEST(Subset, DrawsTheSameNumbersAsTheDatasetItself) {
  const Numbers numbers(0, 10);
  const Subset subset(numbers, {7});
  begin_sample(0);
  const double drawn = numbers.get(7).second;
  const Indices first{0};
  begin_sample(0);
  EXPECT_EQ(subset.get(0).second, drawn);
  EXPECT_EQ(subset.get_batch(first).second.item<double>(), drawn);
}

TEST(Subset, NamesAnIndexOutOfRange) {
  const Numbers numbers(0, 10);
  EXPECT_THAT([&] { Subset(numbers, {3, 10}); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("Subset: indices[1] = 10 must be from 0 to 9, a sample of numbers from 0")));
}

TEST(Subset, ABadSampleIsNamedByItsIndexInTheWhole) {
  const Numbers numbers(0, 20);
  const Subset subset(numbers, {5, 13});
  const Indices order{0, 1};
  const auto named = ThrowsMessage<std::runtime_error>(HasSubstr("sample 13 of numbers from 0: torn"));
  EXPECT_THAT([&] { subset.get(1); }, named);
  EXPECT_THAT([&] { subset.get_batch(order); }, named);
}

TEST(ConcatDataset, DatasetsFollowOneAnother) {
  const Numbers first(0, 3), none(50, 0), second(100, 2);
  const ConcatDataset all(first, none, second);
  ASSERT_EQ(all.size(), 5);
  DataLoader loader(all, {.batch_size = 5}, 0, 1);
  for (auto& batch : loader.epochs(1)) EXPECT_THAT(list(batch.first), ElementsAre(0, 1, 2, 100, 101));
}

TEST(ConcatDataset, ABadSampleIsNamedWithItsDataset) {
  const Numbers first(0, 10), second(100, 20);
  const ConcatDataset all(first, second);
  DataLoader loader(all, {.batch_size = 30}, 0, 1);
  EXPECT_THAT(
      [&] {
        for ([[maybe_unused]] auto& batch : loader.epochs(1)) {
        }
      },
      ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("sample 23 of numbers from 0 + numbers from 100"),
                                              HasSubstr("sample 13 of numbers from 100: torn"))));
}

TEST(RandomSplit, PartsAreDisjointAndMakeUpTheWhole) {
  const Numbers numbers(0, 11);
  const auto parts = random_split(numbers, {0.5, 0.3, 0.2}, 3);
  Indices all;
  std::vector<std::int64_t> sizes;
  for (const auto& part : parts) {
    sizes.push_back(part.size());
    all.insert(all.end(), part.indices().begin(), part.indices().end());
  }
  EXPECT_THAT(sizes, ElementsAre(6, 3, 2));  // 5.5, 3.3 and 2.2, and one left over
  std::ranges::sort(all);
  EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
}

TEST(RandomSplit, SaysWhatIsWrongWithTheLengths) {
  const Numbers numbers(0, 10);
  const auto refused = [&](const auto& lengths, const std::string& why) {
    EXPECT_THAT([&] { random_split(numbers, lengths); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("random_split: " + why)));
  };
  const std::string right =
      " must be integers from 0 with the sum 10, the samples of numbers from 0, "
      "or fractions from 0 to 1 with the sum 1";
  refused(std::vector{3, 4}, "lengths = [3, 4]" + right);
  refused(std::vector{12, -2}, "lengths = [12, -2]" + right);
  refused(std::vector{0.3, 0.4}, "floating-point lengths = [0.3, 0.4]" + right);
  refused(std::vector{1.5, -0.5}, "floating-point lengths = [1.5, -0.5]" + right);
  refused(std::vector{6.0, 4.0}, "floating-point lengths = [6, 4]" + right);
}

TEST(CachedDataset, ReadsASampleOnce) {
  const Numbers numbers(0, 10);
  const CachedDataset cached(numbers, 1 << 20);
  DataLoader loader(cached, {.batch_size = 4, .shuffle = true, .num_workers = 2}, 0, 1);
  std::int64_t sum = 0;
  for (auto& batch : loader.epochs(5)) sum += batch.first.sum().item<std::int64_t>();
  EXPECT_EQ(sum, 5 * 45);
  EXPECT_GE(numbers.reads, 10);
  const int reads = numbers.reads;
  for (std::int64_t i = 0; i < 10; ++i) cached.get(i);
  EXPECT_EQ(numbers.reads, reads);
}

class Ones : public Dataset<at::Tensor> {
 public:
  std::int64_t size() const override { return 10; }
  at::Tensor get(std::int64_t) const override {
    ++reads;
    return torch::ones({1000, 256}).select(0, 0);  // a view of a tensor of 1 MiB
  }
  mutable std::atomic<int> reads = 0;
};

TEST(CachedDataset, KeepsNoMoreBytesThanItsLimit) {
  const Ones ones;
  const CachedDataset cached(ones, 3500);  // room for three samples of 1024 bytes
  for (int epoch = 0; epoch < 2; ++epoch)
    for (std::int64_t i = 0; i < 10; ++i) EXPECT_EQ(cached.get(i).sum().item<float>(), 256);
  EXPECT_EQ(ones.reads, 10 + 7);
  EXPECT_EQ(cached.kept_bytes(), 3072);
}

TEST(CachedDataset, ChangingASampleDoesNotChangeTheCachedOne) {
  const Ones ones;
  const CachedDataset cached(ones, 1 << 20);
  for (int time = 0; time < 3; ++time) EXPECT_EQ(cached.get(4).mul_(2).sum().item<float>(), 512);
  EXPECT_EQ(ones.reads, 1);
}

TEST(CachedDataset, KeepsOneCopyWhenManyThreadsReadAtOnce) {
  const Ones ones;
  for (int time = 0; time < 50; ++time) {
    const CachedDataset cached(ones, 1 << 20);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&] {
        for (std::int64_t i = 0; i < 10; ++i) EXPECT_EQ(cached.get(i).sum().item<float>(), 256);
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(cached.kept_bytes(), 10 * 1024);
  }
}

TEST(CachedDataset, NamesAWrongLimit) {
  const Ones ones;
  EXPECT_THAT(([&] { CachedDataset(ones, 0); }),
              ThrowsMessage<std::invalid_argument>(HasSubstr("limit_bytes = 0 must be at least 1")));
}

TEST(WindowDataset, ASampleIsAWindowAndItsHorizon) {
  const at::Tensor series = torch::arange(40).reshape({20, 2});
  const WindowDataset dataset(series, {.length = 5, .stride = 3, .horizon = 2});
  ASSERT_EQ(dataset.size(), 5);  // the last: 12 to 16, then 17 and 18
  EXPECT_TRUE(dataset.get(4).data.equal(series.narrow(0, 12, 5)));
  EXPECT_TRUE(dataset.get(4).target.equal(series.narrow(0, 17, 2)));
  const Indices order{4, 0, 1};
  const Batch batch = dataset.get_batch(order);
  const Batch expected = dataset.Dataset<Example>::get_batch(order);
  EXPECT_TRUE(batch.data.equal(expected.data));
  EXPECT_TRUE(batch.target.equal(expected.target));
  EXPECT_EQ(batch.data.sizes(), (Indices{3, 5, 2}));
}

TEST(WindowDataset, TargetsMayComeFromAnotherSeries) {
  const WindowDataset dataset(torch::zeros({10, 3}), torch::arange(10), {.length = 4});
  ASSERT_EQ(dataset.size(), 6);
  EXPECT_THAT(list(dataset.get(5).target), ElementsAre(9));
  EXPECT_EQ(dataset.get(5).data.sizes(), (Indices{4, 3}));
}

TEST(WindowDataset, NamesArgumentsThatDoNotFit) {
  const auto refused = [](WindowDatasetOptions options, const std::string& why) {
    EXPECT_THAT([&] { WindowDataset(torch::arange(10), options); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(why)));
  };
  EXPECT_EQ(WindowDataset(torch::arange(10), {.length = 8, .horizon = 2}).size(), 1);
  refused({}, "WindowDataset: length = 0 must be at least 1");
  refused({.length = 2, .stride = 0}, "WindowDataset: stride = 0 must be at least 1");
  refused({.length = 2, .horizon = 0}, "WindowDataset: horizon = 0 must be at least 1");
  refused({.length = 8, .horizon = 3}, "the series has 10 steps; a length of 8 and a horizon of 3 need 11");
  EXPECT_THAT([] { WindowDataset(torch::ones({10}), torch::ones({9}), {.length = 2}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("has 9 rows and the first one 10")));
}

// Sample i is "i".
class Words : public Dataset<std::string> {
 public:
  explicit Words(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  std::string get(std::int64_t index) const override { return std::to_string(index); }
  std::string name() const override { return "words"; }

 private:
  std::int64_t size_;
};
using Stack = StackDataset<std::pair<std::int64_t, double>, std::string>;
static_assert(std::is_constructible_v<Stack, const Numbers&, Words&>);
static_assert(!std::is_constructible_v<Stack, const Numbers&, Words>);

TEST(StackDataset, CombinesTheSamplesOfItsParts) {
  const Numbers numbers(100, 10);
  const Words words(10);
  const StackDataset stack(numbers, words);
  static_assert(std::is_same_v<decltype(stack), const Stack>);
  ASSERT_EQ(stack.size(), 10);
  DataLoader loader(stack, {.batch_size = 4}, 0, 1);
  for (auto& [left, right] : loader) {
    EXPECT_THAT(list(left.first), ElementsAre(100, 101, 102, 103));
    EXPECT_THAT(right, ElementsAre("0", "1", "2", "3"));
    break;
  }
  struct Named {
    at::Tensor number;
    at::Tensor letters;
  };
  const auto named = transformed(stack, [](const auto& sample) {
    const auto& [number, word] = sample;
    return Named{at::scalar_tensor(number.first), at::scalar_tensor(std::ssize(word))};
  });
  DataLoader of_structs(named, {.batch_size = 10}, 0, 1);
  for (auto& batch : of_structs) EXPECT_EQ(batch.letters.sum().item<int>(), 10);
}

TEST(StackDataset, DrawsTheSameNumbersInABatchAsAlone) {
  const Numbers first(0, 10), second(20, 10);
  const StackDataset stack(first, second);
  DataLoader loader(stack, {.batch_size = 10, .seed = 3}, 0, 1);
  DataLoader skipping(stack, {.batch_size = 10, .seed = 3, .bad_sample = BadSample::kSkip}, 0, 1);
  std::vector<at::Tensor> drawn;
  for (auto& batch : loader) drawn.push_back(std::get<1>(batch).second.clone());
  for (auto& batch : skipping) EXPECT_TRUE(std::get<1>(batch).second.equal(drawn.at(0)));
  EXPECT_FALSE(drawn.at(0)[0].equal(drawn[0][1]));
}

TEST(StackDataset, NamesPartsThatDoNotFit) {
  const Numbers numbers(100, 20);
  const Words words(10);
  EXPECT_THAT([&] { Stack(numbers, words); },
              ThrowsMessage<std::invalid_argument>(
                  "StackDataset: the size of words = 10 must be that of numbers from 100, 20"));
  const Words more(20);
  const StackDataset stack(more, numbers);
  DataLoader loader(stack, {.batch_size = 20}, 0, 1);
  EXPECT_THAT(
      [&] { for ([[maybe_unused]] auto& batch : loader); },
      ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("cannot load sample 13 of words with numbers from 100"),
                                              HasSubstr("sample 13 of numbers from 100: torn"))));
}

// first, first + 1, ...: shard s of c has the samples at s, s + c, ...
class Stream : public IterableDataset<std::int64_t> {
 public:
  Stream(std::int64_t first, std::int64_t size) : first_(first), size_(size) {}
  std::unique_ptr<Reader> open(const Shard& shard) const override {
    struct Reading : Reader {
      std::optional<std::int64_t> next() override {
        if (place >= size) return std::nullopt;
        return first + std::exchange(place, place + step);
      }
      std::int64_t first, size, place, step;
    };
    ++opened;
    auto reading = std::make_unique<Reading>();
    std::tie(reading->first, reading->size, reading->place, reading->step) =
        std::tuple(first_, size_, shard.index, shard.count);
    return reading;
  }
  std::string name() const override { return "stream from " + std::to_string(first_); }
  mutable std::atomic<int> opened = 0;

 private:
  std::int64_t first_, size_;
};

TEST(ChainDataset, ReadsOneStreamAfterTheOtherInEachShard) {
  const Stream first(0, 5), none(50, 0), last(100, 4);
  const ChainDataset chain(first, none, last);
  EXPECT_EQ(chain.name(), "stream from 0 + stream from 50 + stream from 100");
  const auto all = [&](int workers, int rank, int ranks) {
    DataLoader loader(chain, {.batch_size = 2, .num_workers = workers}, rank, ranks);
    std::vector<Indices> batches;
    for (auto& batch : loader) batches.push_back(list(batch));
    return batches;
  };
  EXPECT_THAT(all(0, 0, 1), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 100),
                                        ElementsAre(101, 102), ElementsAre(103)));
  EXPECT_THAT(all(2, 0, 1), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 100),
                                        ElementsAre(101, 103), ElementsAre(102)));
  EXPECT_THAT(all(0, 1, 2), ElementsAre(ElementsAre(1, 3), ElementsAre(101, 103)));
  const int before = last.opened;
  DataLoader loader(chain, {.batch_size = 2}, 0, 1);
  for ([[maybe_unused]] auto& batch : loader) break;
  EXPECT_EQ(last.opened, before) << "not before its turn";
}

TEST(ChainDataset, AResumedRunHasTheSameRest) {
  const Stream first(0, 7), last(100, 8);
  const ChainDataset chain(first, last);
  const DataLoaderOptions options{.batch_size = 2, .num_workers = 2};
  DataLoader loader(chain, options, 0, 1), resumed(chain, options, 0, 1);
  std::vector<Indices> expected, rest;
  int taken = 0;
  for (auto& batch : loader.epochs(1)) {
    if (++taken == 4) resumed.load_state(loader.state());
    if (taken > 4) expected.push_back(list(batch));
  }
  for (auto& batch : resumed.epochs(1)) rest.push_back(list(batch));
  EXPECT_GE(rest.size(), 3U);
  EXPECT_EQ(rest, expected);
}

}  // namespace
}  // namespace muster
