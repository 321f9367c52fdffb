#include <atomic>
#include <csignal>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/checkpoint/train_state.h>
#include <muster/data/batch_sampler.h>
#include <muster/data/data_loader.h>
#include <muster/data/sampler.h>
#include <set>
#include <stdexcept>
#include <sys/resource.h>
#include <torch/torch.h>
#include <unistd.h>

#include "tests/unit/runtime/loader_numbers.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

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

TEST(DataLoader, ResumesAfterTheLastConsumedBatch) {
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
        if (seen.size() == stop) break;  // the workers have loaded later batches ahead
      }
    }
    DataLoader second(dataset, options, 0, 2);
    second.load_state(first.state());
    const Batches more = rest(second, 2);
    seen.insert(seen.end(), more.begin(), more.end());
    EXPECT_EQ(seen, expected) << "stopped after " << stop;
  }
}

TEST(DataLoader, ResumingReadsNoConsumedSamples) {
  const Numbers dataset(1000);
  DataLoader loader(dataset, {.batch_size = 10}, 0, 1);
  DataLoaderState state = loader.state();
  state.consumed = 990;
  loader.load_state(state);
  rest(loader, 1);
  EXPECT_EQ(dataset.reads(), 10);
}

TEST(DataLoader, WithoutReadingVisitsTheSameBatches) {
  const Numbers dataset(50), unread(50);
  for (const int workers : {0, 2}) {
    DataLoader loader(dataset, {.batch_size = 4, .shuffle = true}, 1, 2);
    DataLoader blind(unread, {.batch_size = 4, .shuffle = true, .num_workers = workers, .read = false}, 1, 2);
    auto other = blind.epochs(2).begin();
    for ([[maybe_unused]] auto& batch : loader.epochs(2)) {
      EXPECT_FALSE((*other).data.defined());
      EXPECT_EQ(blind.info().indices, loader.info().indices);
      EXPECT_EQ(blind.state().consumed, loader.state().consumed);
      ++other;
    }
    EXPECT_EQ(other, std::default_sentinel);
  }
  EXPECT_EQ(unread.reads(), 0);
}

TEST(DataLoader, LoadingAStateRestartsTheWorkers) {
  const Numbers dataset(40);
  DataLoader loader(dataset, {.batch_size = 4, .num_workers = 3}, 0, 1);
  const DataLoaderState start = loader.state();
  for ([[maybe_unused]] auto& batch : loader.epochs(1)) break;
  loader.load_state(start);
  EXPECT_EQ(rest(loader, 1).front(), (std::vector<std::int64_t>{0, 1, 2, 3}));
}

TEST(DataLoader, RefusesAStateThatDoesNotFit) {
  const Numbers dataset(96);
  DataLoader loader(dataset, {.batch_size = 5, .shuffle = true}, 0, 3);
  const DataLoaderState own = loader.state();
  const auto refusal = [&](DataLoaderState state) {
    try {
      loader.load_state(state);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  DataLoaderState state = own;
  state.consumed = 200;
  EXPECT_THAT(refusal(state), HasSubstr("first = 200 must be from 0 to 95"));
  state = DataLoader(dataset, {.batch_size = 5, .shuffle = true, .seed = 1}, 0, 3).state();
  EXPECT_THAT(refusal(state),
              HasSubstr("it was saved with the order DistributedSampler(RandomSampler(96, seed 1))"));
  state = own;
  state.dataset_size = 95;
  EXPECT_THAT(refusal(state), HasSubstr("it was saved with 95 samples"));
  state = DataLoader(dataset, {.shuffle = true, .global_batch_size = 12}, 0, 2).state();
  EXPECT_THAT(refusal(state), HasSubstr("; saved with a global batch of 12 on 2 ranks, now 3 x 5"));
  DataLoader global(dataset, {.global_batch_size = 12}, 0, 3);
  state = global.state();
  state.consumed = 20;
  EXPECT_THAT([&] { global.load_state(state); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("no batch begins at sample 20 of epoch 0")));
  EXPECT_EQ(refusal(own), "");
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
    EXPECT_THAT(
        train,
        ThrowsMessage<std::runtime_error>(HasSubstr(
            "epoch 0, batch 3 (samples 12, 13, 14, 15): cannot load sample 13 of the dataset: torn image")));
    EXPECT_EQ(batches, 3) << "the loop gets the batches before it";
  }
}

TEST(DataLoader, ABadSampleIsSkippedOnRequest) {
  Numbers dataset(40);
  dataset.spoil(13);
  for (const int workers : {0, 3}) {
    DataLoader loader(dataset, {.batch_size = 4, .num_workers = workers, .bad_sample = BadSample::kSkip}, 0,
                      1);
    Batches all;
    std::vector<std::int64_t> skipped;
    for (auto& batch : loader.epochs(1)) {
      all.push_back(numbers(batch));
      EXPECT_EQ(loader.info().indices, all.back());
      const auto& more = loader.info().skipped;
      skipped.insert(skipped.end(), more.begin(), more.end());
    }
    ASSERT_EQ(all.size(), 10U);
    EXPECT_EQ(all[3], (std::vector<std::int64_t>{12, 14, 15}));
    EXPECT_EQ(skipped, std::vector<std::int64_t>{13});
  }
}

TEST(DataLoader, ABatchWithoutAReadableSampleIsAnError) {
  Numbers dataset(3);
  dataset.spoil(1);
  DataLoader loader(dataset, {.bad_sample = BadSample::kSkip}, 0, 1);
  EXPECT_THAT(
      [&] { rest(loader, 1); },
      ThrowsMessage<std::runtime_error>(HasSubstr("batch 1 (samples 1): none of its samples can be read")));
}

TEST(DataLoader, MarksSamplesRepeatedToMakeTheRanksEven) {
  const Numbers dataset(5);
  std::multiset<std::int64_t> counted;
  for (int rank = 0; rank < 3; ++rank) {
    DataLoader loader(dataset, {.batch_size = 2}, rank, 3);
    for (auto& batch : loader.epochs(1)) {
      const at::Tensor real = batch.target.masked_select(loader.info().mask());
      for (std::int64_t i = 0; i < real.numel(); ++i) counted.insert(real[i].item<std::int64_t>());
    }
  }
  EXPECT_THAT(counted, testing::ElementsAre(0, 1, 2, 3, 4));
}

TEST(DataLoader, SkippingARepeatedSampleMarksNoOtherAsRepeated) {
  Numbers dataset(5);
  dataset.spoil(0);  // a sample of rank 0, which rank 2 repeats at its end
  std::multiset<std::int64_t> counted;
  for (int rank = 0; rank < 3; ++rank) {
    DataLoader loader(dataset, {.batch_size = 2, .bad_sample = BadSample::kSkip}, rank, 3);
    for (auto& batch : loader.epochs(1))
      for (const std::int64_t number :
           numbers({batch.data, batch.target.masked_select(loader.info().mask())}))
        counted.insert(number);
  }
  EXPECT_THAT(counted, testing::ElementsAre(1, 2, 3, 4));
}

TEST(DataLoader, GivesEachSampleOnceWhateverTheRanksWithAGlobalBatchSize) {
  const Numbers dataset(103);
  const DataLoaderOptions options{.shuffle = true, .seed = 4, .global_batch_size = 12};
  std::multiset<std::int64_t> seen;
  DataLoaderState state;
  std::int64_t done = 0;
  for (const int ranks : {4, 2, 3}) {
    const std::int64_t batches = ranks == 3 ? 9 - done : 3;
    DataLoaderState next;
    for (int rank = 0; rank < ranks; ++rank) {
      DataLoader loader(dataset, options, rank, ranks);
      if (done > 0) loader.load_state(state);
      std::int64_t taken = 0;
      for (auto& batch : loader.epochs(1)) {
        for (const std::int64_t number : numbers(batch)) seen.insert(number);
        if (++taken == batches) break;
      }
      next = loader.state();
    }
    state = next;
    done += batches;
  }
  EXPECT_EQ(state.epoch, 1);
  ASSERT_EQ(seen.size(), 103U);
  for (std::int64_t number = 0; number < 103; ++number) EXPECT_EQ(seen.count(number), 1U) << number;
}

TEST(DataLoader, TheCollateFunctionDecidesTheTypeOfABatch) {
  const Numbers dataset(6);
  DataLoader loader(dataset, {.batch_size = 4, .num_workers = 1}, 0, 1,
                    [](const std::vector<Example>& samples) {
                      std::vector<at::Tensor> sequences;
                      for (const Example& sample : samples)
                        sequences.push_back(at::ones({sample.target.item<std::int64_t>()}));
                      return pad_sequences(sequences);
                    });
  std::vector<std::int64_t> longest;
  for (auto& batch : loader.epochs(1)) longest.push_back(batch.data.size(1));
  EXPECT_EQ(longest, (std::vector<std::int64_t>{3, 5}));
}

TEST(DataLoader, StartsPersistentWorkersOnce) {
  const Numbers dataset(12);
  for (const bool persistent : {false, true}) {
    std::atomic<int> started = 0;
    DataLoader loader(dataset,
                      {.batch_size = 2,
                       .num_workers = 2,
                       .worker_init_fn =
                           [&](int worker) {
                             EXPECT_EQ(get_worker_info().id, worker);
                             EXPECT_EQ(get_worker_info().num_workers, 2);
                             ++started;
                           },
                       .persistent_workers = persistent},
                      0, 1);
    EXPECT_EQ(rest(loader, 1).size(), 6U);
    EXPECT_EQ(rest(loader, 2).size(), 6U);
    loader.stop();
    EXPECT_EQ(started, persistent ? 2 : 4);
  }
}

TEST(DataLoader, AFailedWorkerInitFnIsAnErrorThatNamesTheWorker) {
  const Numbers dataset(12);
  DataLoader loader(dataset,
                    {.num_workers = 2, .worker_init_fn = [](int) { throw std::runtime_error("no licence"); }},
                    0, 1);
  EXPECT_THAT([&] { rest(loader, 1); },
              ThrowsMessage<std::runtime_error>(testing::MatchesRegex(
                  "DataLoader: worker_init_fn of worker [01] of 2 for the dataset has failed: no licence")));
}

#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)  // these need address space
TEST(DataLoader, TooManyWorkersIsAnErrorThatSaysHowManyCouldStart) {
  const Numbers dataset(12);
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &old), 0);
  rlimit tight = old;  // room for the stacks of some threads
  tight.rlim_cur = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE)) + (rlim_t{256} << 20);
  DataLoader loader(dataset, {.num_workers = 999}, 0, 1);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &tight), 0);
  EXPECT_THAT([&] { rest(loader, 1); },
              ThrowsMessage<std::runtime_error>(testing::MatchesRegex(
                  "DataLoader: num_workers = 999: only [0-9]+ threads could be started: "
                  "Resource temporarily unavailable")));
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &old), 0);
}
#endif

TEST(DataLoader, ASamplersIndexBeyondTheDatasetIsAnErrorThatNamesIt) {
  struct Listed : Sampler {
    std::int64_t size() const override { return 4; }
    std::vector<std::int64_t> indices(std::int64_t epoch) const override {
      return {0, 3, 1, epoch == 0 ? 2 : outside};
    }
    std::string description() const override { return "Listed"; }
    std::int64_t outside = 0;
  };
  const Numbers dataset(4);
  for (const int workers : {0, 2}) {
    for (const BadSample bad_sample : {BadSample::kStop, BadSample::kSkip}) {
      for (const std::int64_t outside : {4, -1}) {
        const auto sampler = std::make_shared<Listed>();
        sampler->outside = outside;
        const auto batches = std::make_shared<BatchSampler>(sampler, 2, false);
        const std::string said = fmt::format(
            "the dataset: epoch 1, batch 1 (samples 1, {0}): "
            "the sampler gave the index {0}, and the dataset has {1} samples",
            outside, 4);
        const std::int64_t before = dataset.reads();
        DataLoader one_by_one(
            dataset, {.batch_size = 2, .sampler = sampler, .num_workers = workers, .bad_sample = bad_sample},
            0, 1);
        EXPECT_THAT([&] { rest(one_by_one, 2); }, ThrowsMessage<std::out_of_range>(said));
        DataLoader batched(
            dataset, {.batch_sampler = batches, .num_workers = workers, .bad_sample = bad_sample}, 0, 1);
        EXPECT_THAT([&] { rest(batched, 2); }, ThrowsMessage<std::out_of_range>(said));
        EXPECT_EQ(dataset.reads() - before, 12) << "the dataset was not asked for the batch";
      }
    }
  }
}

TEST(DataLoader, ASamplerThatFailsInALaterEpochIsAnErrorAfterTheBatchesBeforeIt) {
  struct FailsLater : Sampler {
    std::int64_t size() const override { return 12; }
    std::vector<std::int64_t> indices(std::int64_t epoch) const override {
      if (epoch == 1) throw std::runtime_error("no list of this epoch");
      return SequentialSampler(12).indices(epoch);
    }
    std::string description() const override { return "FailsLater"; }
  };
  const Numbers dataset(12);
  for (const int workers : {0, 2}) {
    DataLoader loader(
        dataset, {.batch_size = 2, .sampler = std::make_shared<FailsLater>(), .num_workers = workers}, 0, 1);
    int batches = 0;
    EXPECT_THAT(
        [&] {
          for ([[maybe_unused]] auto& batch : loader.epochs(3)) ++batches;
        },
        ThrowsMessage<std::runtime_error>(HasSubstr("no list of this epoch")));
    EXPECT_EQ(batches, 6);
  }
}

// A dataset that blocks in one example until the test releases it.
class Slow : public Numbers {
 public:
  using Numbers::Numbers;
  Example get(std::int64_t index) const override {
    if (index == 3) gate_.wait(false);
    return Numbers::get(index);
  }
  void open() const {
    gate_ = true;
    gate_.notify_all();
  }

 private:
  mutable std::atomic<bool> gate_ = false;
};

TEST(DataLoader, ADatasetThatBlocksPastTheTimeoutIsNamedAndDoesNotBlockTheLoader) {
  // A worker that hangs may use its dataset after the loader is gone.
  static const Slow dataset(8);
  {
    DataLoader loader(dataset, {.batch_size = 2, .num_workers = 1, .timeout = std::chrono::milliseconds(500)},
                      0, 1);
    EXPECT_THAT([&] { rest(loader, 1); },
                ThrowsMessage<std::runtime_error>(
                    HasSubstr("the dataset gave no batch within 0.5 s: epoch 0, batch 1 (samples 2, 3)")));
  }
  dataset.open();
}

TEST(DataLoader, OutOfOrderItDoesNotWaitForASlowSample) {
  const Slow dataset(8);
  DataLoader loader(dataset, {.batch_size = 2, .num_workers = 2, .in_order = false}, 0, 1);
  std::vector<std::int64_t> order;
  for ([[maybe_unused]] auto& batch : loader.epochs(1)) {
    order.push_back(loader.batch());
    if (order.size() == 3) dataset.open();
  }
  EXPECT_EQ(order.back(), 1);
  EXPECT_THAT(order, testing::UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_THROW(loader.state(), std::logic_error);
}

TEST(DataLoader, ATrainStateRefusesALoaderWithoutAPosition) {
  const Numbers dataset(8);
  DataLoader loader(dataset, {.num_workers = 1, .in_order = false}, 0, 1);
  torch::nn::Linear net(2, 2);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  EXPECT_THAT([&] { TrainState(net, optimizer, loader); },
              ThrowsMessage<std::logic_error>(HasSubstr("a loader with in_order = false has no position")));
}

TEST(DataLoader, LoadsAheadNoMoreThanItsLimitInBytes) {
  const Numbers dataset(200);
  // A batch has two floats and one int64: 16 bytes.
  DataLoader loader(dataset, {.batch_size = 1, .num_workers = 2, .prefetch_factor = 50, .prefetch_bytes = 64},
                    0, 1);
  std::int64_t taken = 0;
  for ([[maybe_unused]] auto& batch : loader.epochs(1)) {
    ++taken;
    EXPECT_LE(dataset.reads(), taken + 4 + 2);  // two before their size is known
  }
  EXPECT_EQ(taken, 200);
}

// Loading takes no time, so workers and training wait for each other at almost every batch. A wake-up that is
// left out would end this test by its time limit.
TEST(DataLoader, NobodyWaitsForEverWhileTheOtherSideWaits) {
  constexpr std::int64_t kSamples = 4000;
  const Numbers dataset(kSamples);
  for (const bool in_order : {true, false}) {
    for (const std::int64_t prefetch_bytes : {16, 64, 1 << 20}) {
      DataLoader loader(
          dataset,
          {.batch_size = 1, .num_workers = 5, .in_order = in_order, .prefetch_bytes = prefetch_bytes}, 0, 1);
      std::int64_t sum = 0;
      for (const auto& batch : loader.epochs(1)) sum += batch.target.item<std::int64_t>();
      EXPECT_EQ(sum, kSamples * (kSamples - 1) / 2);
    }
  }
}

TEST(DataLoader, ReusesTheMemoryOfFreedBatches) {
  const Numbers dataset(64);
  DataLoader loader(dataset, {.batch_size = 8}, 0, 1);
  std::set<const void*> places;
  for (auto& batch : loader.epochs(1)) places.insert(batch.data.const_data_ptr());
  EXPECT_EQ(places.size(), 1U);
  at::Tensor kept;
  for (auto& batch : loader.epochs(2)) {
    if (!kept.defined())
      kept = batch.data;
    else
      EXPECT_NE(batch.data.const_data_ptr(), kept.const_data_ptr());
  }
}

TEST(DataLoader, NamesAWrongOption) {
  const Numbers dataset(10);
  EXPECT_THAT([&] { DataLoader(dataset, {.batch_size = 0}, 0, 1); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("batch_size = 0 must be at least 1")));
  EXPECT_THAT([&] { DataLoader(dataset, {.batch_size = 6, .drop_last = true}, 0, 2); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("10 samples of the dataset for 2 ranks give no batch of 6")));
  const auto refuses = [&](const DataLoaderOptions& options, const std::string& reason) {
    EXPECT_THAT([&] { DataLoader(dataset, options, 0, 1); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(reason)));
  };
  const auto order = std::make_shared<SequentialSampler>(10);
  const auto batches = std::make_shared<BatchSampler>(order, 2, false);
  refuses({.shuffle = true, .sampler = order}, "sampler and shuffle exclude each other");
  refuses({.batch_size = 2, .batch_sampler = batches}, "batch_sampler and batch_size exclude each other");
  refuses({.shuffle = true, .batch_sampler = batches}, "batch_sampler and shuffle exclude each other");
  refuses({.sampler = order, .batch_sampler = batches}, "batch_sampler and sampler exclude each other");
  refuses({.batch_sampler = batches, .drop_last = true}, "batch_sampler and drop_last exclude each other");
  refuses({.batch_size = 2, .global_batch_size = 4}, "global_batch_size and batch_size exclude each other");
  refuses({.prefetch_factor = 2}, "prefetch_factor needs num_workers above 0");
  refuses({.persistent_workers = true}, "persistent_workers needs num_workers above 0");
  refuses({.timeout = std::chrono::seconds(1)}, "timeout needs num_workers above 0");
  refuses({.timeout = std::chrono::seconds(-1)}, "timeout = -1 must be at least 0 seconds");
  refuses({.num_workers = 1, .prefetch_factor = 0}, "prefetch_factor = 0 must be at least 1");
  const Numbers nothing(0);
  EXPECT_THAT([&] { DataLoader(nothing, {}, 0, 1); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("the dataset has no samples")));
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

TEST(DataLoader, WorkersTakeNoSignals) {
  struct Asks : Dataset<std::int64_t> {
    std::int64_t size() const override { return 8; }
    std::int64_t get(std::int64_t /*index*/) const override {
      sigset_t blocked{};
      pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
      return sigismember(&blocked, SIGTERM) + sigismember(&blocked, SIGINT);
    }
  };
  const Asks dataset;
  DataLoader loader(dataset, {.num_workers = 2}, 0, 1);
  for (auto& batch : loader) EXPECT_EQ(batch.item<std::int64_t>(), 2);
}

// A batch of anything that has tensors.
struct Odd {
  std::optional<at::Tensor> mask;
  at::Tensor words;
  std::optional<at::Tensor> none;
  enum class Kind { kA, kB } kind = Kind::kB;
};

TEST(DataLoader, SparseAndOptionalTensorsAreLoadedByWorkers) {
  const Numbers dataset(6);
  const auto collate = [](const std::vector<Example>& samples) {
    const at::Tensor dense = at::eye(8) * samples.front().target.item<double>();
    return Odd{.mask = dense.to_sparse(), .words = dense.to_sparse_csr(), .none = {}};
  };
  for (const int workers : {0, 2}) {
    DataLoader loader(dataset, {.num_workers = workers}, 0, 1, collate);
    std::int64_t taken = 0;
    for (auto& batch : loader) {
      EXPECT_TRUE(batch.mask->to_dense().equal(at::eye(8) * taken));
      EXPECT_TRUE(batch.words.to_dense().equal(at::eye(8) * taken));
      EXPECT_FALSE(batch.none);
      ++taken;
    }
    EXPECT_EQ(taken, 6);
  }
}

TEST(DataLoader, CountsEveryTensorOfABatch) {
  Odd odd{.mask = at::ones({3}, at::kFloat), .words = at::eye(4, at::kDouble).to_sparse(), .none = {}};
  std::vector<at::Tensor*> tensors;
  detail::collect_tensors(odd, tensors);
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(detail::tensor_bytes(*tensors[0]), 12);
  EXPECT_EQ(detail::tensor_bytes(*tensors[1]), 4 * 8 + 2 * 4 * 8)
      << "values, and the indices of two dimensions";
  EXPECT_EQ(detail::tensor_bytes(at::eye(4, at::kDouble).to_sparse_csr()), 4 * 8 + 4 * 8 + 5 * 8);
  EXPECT_EQ(detail::tensor_bytes(at::Tensor()), 0);
  // A class may list its tensors itself.
  class Hidden {
   public:
    std::vector<at::Tensor*> tensors() { return {&tensor_}; }

   private:
    at::Tensor tensor_ = at::ones({2});
  };
  std::vector<Hidden> hidden(2);
  tensors.clear();
  detail::collect_tensors(hidden, tensors);
  EXPECT_EQ(tensors.size(), 2U);
}

}  // namespace
}  // namespace muster
