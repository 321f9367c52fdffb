#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/data/batch_sampler.h>
#include <muster/data/data_loader.h>
#include <muster/data/sampler.h>
#include <set>
#include <stdexcept>
#include <torch/torch.h>

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// 0, 1, 2, ..., plus 1000 for each epoch. Shard s of c has s, s + c, s + 2 c, ...
class Counting : public IterableDataset<std::int64_t> {
 public:
  explicit Counting(std::int64_t size) : size_(size) {}
  std::unique_ptr<Reader> open(const Shard& shard) const override {
    ++opened_;
    return std::make_unique<Reading>(*this, shard);
  }
  std::string name() const override { return "numbers"; }
  void spoil(std::int64_t number) { bad_.insert(number); }
  void hang(std::int64_t number) { hangs_ = number; }
  void skips() { skips_ = true; }
  std::int64_t reads() const { return reads_; }
  std::int64_t opened() const { return opened_; }
  void open_gate() const {
    gate_ = true;
    gate_.notify_all();
  }

 private:
  struct Reading : Reader {
    Reading(const Counting& all, const Shard& shard) : dataset(all), part(shard), number(shard.index) {}
    std::optional<std::int64_t> next() override {
      if (number >= dataset.size_) return std::nullopt;
      const std::int64_t mine = std::exchange(number, number + part.count);
      ++dataset.reads_;
      if (mine == dataset.hangs_) dataset.gate_.wait(false);
      if (dataset.bad_.contains(mine)) throw std::runtime_error("torn line");
      return mine + 1000 * part.epoch;
    }
    bool skip(std::int64_t count) override {
      if (dataset.skips_) number += count * part.count;
      return dataset.skips_;
    }
    const Counting& dataset;
    Shard part;
    std::int64_t number;
  };
  std::int64_t size_;
  std::set<std::int64_t> bad_;
  std::int64_t hangs_ = -1;
  bool skips_ = false;
  mutable std::atomic<bool> gate_ = false;
  mutable std::atomic<std::int64_t> reads_ = 0;
  mutable std::atomic<std::int64_t> opened_ = 0;
};

using Loader = DataLoader<std::int64_t>;
using Batches = std::vector<std::vector<std::int64_t>>;

std::vector<std::int64_t> numbers_in(const at::Tensor& batch) {
  return {batch.data_ptr<std::int64_t>(), batch.data_ptr<std::int64_t>() + batch.numel()};
}

Batches rest(Loader& loader, std::int64_t epochs) {
  Batches all;
  for (auto& batch : loader.epochs(epochs)) all.push_back(numbers_in(batch));
  return all;
}

Batches batches_of(const Counting& dataset, const DataLoaderOptions& options, int rank = 0,
                   int world_size = 1) {
  Loader loader(dataset, options, rank, world_size);
  return rest(loader, 1);
}

// torch.utils.data.DataLoader gives these batches for a dataset whose workers take every third number.
TEST(IterableDataset, BatchesComeFromTheWorkersInTurnAsInPyTorch) {
  EXPECT_THAT(batches_of(Counting(7), {.batch_size = 2, .num_workers = 3}),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4), ElementsAre(2, 5), ElementsAre(6)));
  EXPECT_THAT(batches_of(Counting(10), {.batch_size = 2, .num_workers = 2}),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 6), ElementsAre(5, 7),
                          ElementsAre(8), ElementsAre(9)));
  EXPECT_THAT(batches_of(Counting(10), {.batch_size = 2, .num_workers = 2, .drop_last = true}),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 6), ElementsAre(5, 7)));
  EXPECT_THAT(batches_of(Counting(5), {.batch_size = 2}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
}

TEST(IterableDataset, AWorkerWithMoreSamplesContinuesAlone) {
  // Shard 0 ends after one batch, shard 1 after three.
  struct Unequal : IterableDataset<std::int64_t> {
    struct Reading : Reader {
      explicit Reading(const Shard& shard) : next_number(100 * shard.index), left(shard.index == 0 ? 2 : 6) {}
      std::optional<std::int64_t> next() override {
        return left-- > 0 ? std::optional(next_number++) : std::nullopt;
      }
      std::int64_t next_number, left;
    };
    std::unique_ptr<Reader> open(const Shard& shard) const override {
      return std::make_unique<Reading>(shard);
    }
  };
  const Unequal dataset;
  DataLoader loader(dataset, {.batch_size = 2, .num_workers = 2}, 0, 1);
  EXPECT_THAT(rest(loader, 1), ElementsAre(ElementsAre(0, 1), ElementsAre(100, 101), ElementsAre(102, 103),
                                           ElementsAre(104, 105)));
}

TEST(IterableDataset, ShardsOfAllRanksAndWorkersAreTheWholeInEveryEpoch) {
  const Counting dataset(50);
  for (const int workers : {0, 1, 3}) {
    std::multiset<std::int64_t> seen;
    for (const int rank : {0, 1}) {
      Loader loader(dataset, {.batch_size = 4, .num_workers = workers}, rank, 2);
      for (auto& batch : loader.epochs(2)) {
        for (const std::int64_t number : numbers_in(batch)) {
          seen.insert(number);
          EXPECT_EQ(number / 1000, loader.epoch());
        }
        EXPECT_EQ(std::ssize(loader.info().indices), batch.numel());
        for (const std::int64_t index : loader.info().indices)
          EXPECT_EQ(index % (2 * std::max(workers, 1)) / std::max(workers, 1), rank);
      }
    }
    EXPECT_EQ(seen.size(), 100U) << workers;
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 100U) << workers;
  }
}

TEST(IterableDataset, ResumesAfterTheLastConsumedBatch) {
  for (const bool skips : {false, true}) {
    Counting dataset(23);
    if (skips) dataset.skips();
    for (const int workers : {0, 1, 3}) {
      const DataLoaderOptions options{.batch_size = 2, .num_workers = workers};
      Loader undisturbed(dataset, options, 1, 2);
      const Batches expected = rest(undisturbed, 2);
      for (std::size_t stop = 0; stop <= expected.size(); ++stop) {
        Loader first(dataset, options, 1, 2);
        Batches seen;
        if (stop > 0) {
          for (auto& batch : first.epochs(2)) {
            seen.push_back(numbers_in(batch));
            if (seen.size() == stop) break;
          }
        }
        Loader second(dataset, options, 1, 2);
        second.load_state(first.state());
        const Batches more = rest(second, 2);
        seen.insert(seen.end(), more.begin(), more.end());
        EXPECT_EQ(seen, expected) << workers << " workers, stopped after " << stop;
        // The first loader also continues where its loop was left.
        const Batches own = rest(first, 2);
        EXPECT_EQ(own, more) << workers << " workers, stopped after " << stop;
      }
    }
  }
}

TEST(IterableDataset, AReaderThatCanSkipReadsNoSkippedSamples) {
  Counting dataset(1000);
  dataset.skips();
  const DataLoaderOptions options{.batch_size = 10};
  Loader loader(dataset, options, 0, 1);
  DataLoaderState state = loader.state();
  state.of_shards = {99};
  loader.load_state(state);
  EXPECT_EQ(rest(loader, 1).size(), 1U);
  EXPECT_EQ(dataset.reads(), 10);
}

TEST(IterableDataset, OpensEachShardOnceAnEpoch) {
  const Counting dataset(40);
  Loader loader(dataset, {.batch_size = 3, .num_workers = 2}, 0, 1);
  rest(loader, 3);
  EXPECT_EQ(dataset.opened(), 6);
}

TEST(IterableDataset, RefusesAStateOfOtherShardsWithinAnEpoch) {
  const Counting dataset(40);
  Loader saving(dataset, {.batch_size = 2, .num_workers = 2}, 0, 4);
  const auto refusal = [&](const DataLoaderState& state, int workers, int rank, int ranks) {
    Loader loader(dataset, {.batch_size = 2, .num_workers = workers}, rank, ranks);
    try {
      loader.check_state(state);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(saving.state(), 3, 0, 2), "") << "at an epoch's start, any number of shards can resume";
  for ([[maybe_unused]] auto& batch : saving) break;
  const DataLoaderState state = saving.state();
  EXPECT_EQ(refusal(state, 2, 0, 4), "");
  EXPECT_THAT(refusal(state, 2, 0, 2),
              HasSubstr("it was saved with 8 shards, and the stream now has 4; "
                        "with .shards = 8 a run can resume with any number of ranks and workers; "
                        "saved with 4 ranks x 2, now 2 x 2"));
  EXPECT_THAT(refusal(state, 2, 1, 4), HasSubstr("it has the shards 0 to 1, and this rank reads 2 to 3"));
  DataLoaderState other = state;
  other.order = "IterableDataset(batch_size 3, seed 0)";
  EXPECT_THAT(refusal(other, 2, 0, 4),
              HasSubstr("it was saved with the order IterableDataset(batch_size 3, seed 0), "
                        "and the order is now IterableDataset(batch_size 2, seed 0)"));
}

TEST(IterableDataset, ANumberOfShardsMakesBatchesTheSameWithAnyNumberOfWorkers) {
  const Counting dataset(50);
  const auto with = [&](int workers, int rank) {
    return batches_of(dataset, {.batch_size = 4, .num_workers = workers, .shards = 5}, rank, 2);
  };
  EXPECT_THAT(with(0, 0),
              ElementsAre(ElementsAre(0, 5, 10, 15), ElementsAre(1, 6, 11, 16), ElementsAre(20, 25, 30, 35),
                          ElementsAre(21, 26, 31, 36), ElementsAre(40, 45), ElementsAre(41, 46)));
  for (const int workers : {1, 2, 3, 7})
    for (const int rank : {0, 1}) EXPECT_EQ(with(workers, rank), with(0, rank)) << workers;
}

// Joins the states of all ranks, as a checkpoint does.
std::vector<std::int64_t> batches_of_all_shards(const std::vector<DataLoaderState>& states) {
  std::vector<std::int64_t> all;
  for (const DataLoaderState& state : states)
    all.insert(all.end(), state.of_shards.begin(), state.of_shards.end());
  return all;
}

TEST(IterableDataset, AnotherNumberOfRanksResumesWithTheSameShards) {
  const Counting dataset(60);  // 8 or 7 in each of 8 shards: batches of 3, 3 and 2 or 1
  const DataLoaderOptions options{.batch_size = 3, .num_workers = 2, .shards = 8};
  for (const int steps : {1, 5, 6, 7, 11}) {
    std::multiset<std::int64_t> seen;
    std::vector<DataLoaderState> states;
    for (const int rank : {0, 1}) {
      Loader loader(dataset, options, rank, 2);
      int taken = 0;
      for (auto& batch : loader) {
        for (const std::int64_t number : numbers_in(batch)) seen.insert(number);
        if (++taken == steps) break;
      }
      states.push_back(loader.state());
    }
    const auto all = batches_of_all_shards(states);
    for (const int rank : {0, 1, 2}) {
      DataLoaderOptions others = options;
      others.num_workers = rank;
      Loader loader(dataset, others, rank, 3);
      DataLoaderState state = loader.state();
      const auto first = all.begin() + state.first_shard;
      state.of_shards.assign(first, first + std::ssize(state.of_shards));
      loader.load_state(state);
      for (auto& batch : loader)
        for (const std::int64_t number : numbers_in(batch)) seen.insert(number);
    }
    EXPECT_EQ(seen.size(), 60U) << steps;
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 60U) << steps;
  }
}

TEST(IterableDataset, ARankContinuesWithTheNextEpochWhenItsShardsHaveEnded) {
  const Counting dataset(20);
  Loader loader(dataset, {.batch_size = 3, .shards = 2}, 0, 1);
  DataLoaderState state = loader.state();
  state.of_shards = {-5, -1};
  loader.load_state(state);
  EXPECT_EQ(loader.epoch(), 1);
  EXPECT_EQ(rest(loader, 2).at(0), (std::vector<std::int64_t>{1000, 1002, 1004}));
}

TEST(IterableDataset, ANumberOfShardsThatDoesNotFitIsRefused) {
  const Counting dataset(10);
  EXPECT_THAT(
      [&] { Loader(dataset, {.shards = 3}, 0, 4); },
      ThrowsMessage<std::invalid_argument>("DataLoader: shards = 3 must be at least 4, one for each rank"));
  EXPECT_THAT([&] { Loader(dataset, {.shards = -1}, 0, 1); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("DataLoader: shards = -1 must be at least 1")));
  struct Few : Dataset<std::int64_t> {
    std::int64_t size() const override { return 3; }
    std::int64_t get(std::int64_t index) const override { return index; }
  };
  const Few few;
  EXPECT_THAT([&] { Loader(few, {.shards = 3}, 0, 1); },
              ThrowsMessage<std::invalid_argument>(
                  "DataLoader: shards is for iterable datasets, and this dataset has indices"));
}

TEST(IterableDataset, ABadSampleIsNamedOrSkipped) {
  Counting dataset(20);
  dataset.spoil(13);
  for (const int workers : {0, 3}) {
    const DataLoaderOptions options{.batch_size = 2, .num_workers = workers};
    EXPECT_THAT([&] { batches_of(dataset, options); },
                ThrowsMessage<std::runtime_error>(
                    HasSubstr(workers == 0 ? "epoch 0, batch 6 of shard 0 of 1: "
                                             "cannot load sample 13 of shard 0 of 1 of numbers: torn line"
                                           : "epoch 0, batch 2 of shard 1 of 3: "
                                             "cannot load sample 4 of shard 1 of 3 of numbers: torn line")));
  }
  const DataLoaderOptions options{.batch_size = 2, .bad_sample = BadSample::kSkip};
  Loader loader(dataset, options, 0, 1);
  Batches all;
  for (auto& batch : loader.epochs(1)) {
    all.push_back(numbers_in(batch));
    EXPECT_EQ(loader.info().indices, all.back());
    EXPECT_EQ(loader.info().skipped.empty(), all.size() != 7);
  }
  ASSERT_EQ(all.size(), 10U);
  EXPECT_THAT(all[6], ElementsAre(12));
  Loader resumed(dataset, options, 0, 1);
  DataLoaderState state = resumed.state();
  state.of_shards = {8};
  resumed.load_state(state);
  EXPECT_THAT(rest(resumed, 1), ElementsAre(ElementsAre(16, 17), ElementsAre(18, 19)));
}

// After a batch of bad samples the loader looks whether the shard goes on, and so reads a third bad one.
TEST(IterableDataset, SamplesKeepTheirNumbersAfterABatchOfBadOnes) {
  Counting dataset(10);
  for (const std::int64_t number : {4, 5, 6}) dataset.spoil(number);
  Loader loader(dataset, {.batch_size = 2, .bad_sample = BadSample::kSkip}, 0, 1);
  EXPECT_THAT([&] { rest(loader, 1); },
              ThrowsMessage<std::runtime_error>(HasSubstr("none of its samples can be read")));
  loader.skip_failed_batch();
  Batches all;
  for (auto& batch : loader.epochs(1)) {
    all.push_back(numbers_in(batch));
    EXPECT_EQ(loader.info().indices, all.back());
  }
  EXPECT_THAT(all, ElementsAre(ElementsAre(7), ElementsAre(8, 9)));
}

TEST(IterableDataset, ARankWithoutABatchIsAnError) {
  const Counting dataset(3);
  EXPECT_THAT([&] { batches_of(dataset, {.num_workers = 2}, 2, 4); },
              ThrowsMessage<std::runtime_error>(
                  HasSubstr("DataLoader: numbers gave no batch for shards 4 to 5 of 8 in epoch 0")));
  EXPECT_THAT([&] { batches_of(dataset, {.batch_size = 2, .drop_last = true}, 1, 2); },
              ThrowsMessage<std::runtime_error>(HasSubstr("numbers gave no batch for shards 1 to 1 of 2")));
}

TEST(IterableDataset, ADatasetThatOpensNoReaderIsNamed) {
  struct Closed : IterableDataset<std::int64_t> {
    std::unique_ptr<Reader> open(const Shard&) const override { return nullptr; }
    std::string name() const override { return "closed"; }
  };
  const Closed dataset;
  for (const int workers : {0, 1}) {
    Loader loader(dataset, {.num_workers = workers}, 0, 1);
    EXPECT_THAT([&] { rest(loader, 1); },
                ThrowsMessage<std::runtime_error>(
                    HasSubstr("closed: epoch 0, batch 0 of shard 0 of 1: open() returned no reader")));
  }
}

TEST(IterableDataset, OptionsThatGiveAnOrderAreRefused) {
  const Counting dataset(10);
  const auto refuses = [&](const DataLoaderOptions& options, const std::string& option) {
    EXPECT_THAT([&] { Loader(dataset, options, 0, 1); },
                ThrowsMessage<std::invalid_argument>(
                    HasSubstr("an iterable dataset has its own order, so " + option + " cannot be set")));
  };
  const auto order = std::make_shared<SequentialSampler>(10);
  refuses({.shuffle = true}, "shuffle");
  refuses({.sampler = order}, "sampler");
  refuses({.batch_sampler = std::make_shared<BatchSampler>(order, 2, false)}, "batch_sampler");
  refuses({.global_batch_size = 4}, "global_batch_size");
  refuses({.uneven_ranks = UnevenRanks::kKeep}, "uneven_ranks");
  EXPECT_THAT([&] { Loader(dataset, {.read = false}, 0, 1); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("read = false needs a dataset with indices")));
  Loader loader(dataset, {}, 0, 1);
  EXPECT_THROW(loader.batches_per_epoch(), std::logic_error);
}

TEST(IterableDataset, ADatasetThatBlocksPastTheTimeoutIsNamed) {
  static Counting dataset(20);
  dataset.hang(5);
  {
    Loader loader(dataset, {.batch_size = 2, .num_workers = 2, .timeout = std::chrono::milliseconds(500)}, 0,
                  1);
    EXPECT_THAT([&] { rest(loader, 1); },
                ThrowsMessage<std::runtime_error>(
                    HasSubstr("numbers gave no batch within 0.5 s: epoch 0, batch 1 of shard 1 of 2")));
  }
  dataset.open_gate();
}

TEST(IterableDataset, LoadsAheadNoMoreThanItsLimit) {
  const Counting dataset(1000);
  Loader loader(dataset, {.batch_size = 1, .num_workers = 2, .prefetch_factor = 3}, 0, 1);
  std::int64_t taken = 0;
  for ([[maybe_unused]] auto& batch : loader.epochs(1)) {
    ++taken;
    EXPECT_LE(dataset.reads(), taken + 6);
    if (taken == 200) break;
  }
}

TEST(IterableDataset, OutOfOrderEverySampleComesOnceAnEpoch) {
  const Counting dataset(60);
  Loader loader(dataset, {.batch_size = 2, .num_workers = 3, .in_order = false}, 0, 1);
  std::set<std::int64_t> seen;
  for (auto& batch : loader.epochs(3)) {
    for (const std::int64_t number : numbers_in(batch)) {
      EXPECT_TRUE(seen.insert(number).second);
      EXPECT_EQ(number / 1000, loader.epoch());
    }
  }
  EXPECT_EQ(seen.size(), 180U);
}

TEST(IterableDataset, ASampleDrawsTheSameNumbersAfterAResume) {
  struct Drawing : Counting {
    using Counting::Counting;
    struct Reading : Reader {
      std::unique_ptr<Reader> numbers;
      std::optional<std::int64_t> next() override {
        const auto number = numbers->next();
        return number ? std::optional(*number + sample_random().below(1 << 30) * 10000) : number;
      }
    };
    std::unique_ptr<Reader> open(const Shard& shard) const override {
      auto reading = std::make_unique<Reading>();
      reading->numbers = Counting::open(shard);
      return reading;
    }
  };
  const Drawing dataset(30);
  const DataLoaderOptions options{.batch_size = 3, .num_workers = 2, .seed = 6};
  Loader undisturbed(dataset, options, 0, 1);
  const Batches expected = rest(undisturbed, 2);
  Loader first(dataset, options, 0, 1);
  int taken = 0;
  for ([[maybe_unused]] auto& batch : first.epochs(2)) {
    if (++taken == 4) break;
  }
  Loader second(dataset, options, 0, 1);
  second.load_state(first.state());
  EXPECT_EQ(rest(second, 2), Batches(expected.begin() + 4, expected.end()));
}

}  // namespace
}  // namespace muster
