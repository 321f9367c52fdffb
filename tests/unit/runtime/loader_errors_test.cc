// Loop, catch, loop again: after any error, a loader is still at the batch that failed.
#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <muster/data/batch_sampler.h>
#include <muster/data/data_loader.h>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/data/loader/device_copy.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Batches = std::vector<std::vector<std::int64_t>>;
using Loader = DataLoader<std::int64_t>;

std::vector<std::int64_t> entries_of(const at::Tensor& batch) {
  return {batch.data_ptr<std::int64_t>(), batch.data_ptr<std::int64_t>() + batch.numel()};
}

// Sample i is the number i. One of them fails, or hangs, until mend() is called.
class Fragile : public Dataset<std::int64_t> {
 public:
  explicit Fragile(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  std::int64_t get(std::int64_t index) const override {
    if (index == bad_) throw std::runtime_error("torn sample");
    if (index == hangs_) gate_.wait(false);
    return index;
  }
  void spoil(std::int64_t index) const { bad_ = index; }
  void hang(std::int64_t index) const { hangs_ = index; }
  void mend() const {
    bad_ = -1;
    hangs_ = -1;
    gate_ = true;
    gate_.notify_all();
  }

 private:
  std::int64_t size_;
  mutable std::atomic<std::int64_t> bad_ = -1;
  mutable std::atomic<std::int64_t> hangs_ = -1;
  mutable std::atomic<bool> gate_ = false;
};

// Shard s of c has the samples s, s + c, ...
class FragileStream : public IterableDataset<std::int64_t> {
 public:
  explicit FragileStream(std::int64_t size) : samples_(size) {}
  std::unique_ptr<Reader> open(const Shard& shard) const override {
    return std::make_unique<Reading>(samples_, shard);
  }
  const Fragile& samples() const { return samples_; }

 private:
  struct Reading : Reader {
    Reading(const Fragile& all, const Shard& shard) : samples(all), part(shard), number(shard.index) {}
    std::optional<std::int64_t> next() override {
      if (number >= samples.size()) return std::nullopt;
      return samples.get(std::exchange(number, number + part.count));
    }
    const Fragile& samples;
    Shard part;
    std::int64_t number;
  };
  Fragile samples_;
};

// Appends a loop's batches until it ends or throws. Returns the text of the exception, or an empty text.
std::string loop(Loader& loader, std::int64_t epochs, Batches& seen) {
  try {
    for (auto& batch : loader.epochs(epochs)) seen.push_back(entries_of(batch));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

Batches rest_of(Loader& loader, std::int64_t epochs) {
  Batches seen;
  EXPECT_EQ(loop(loader, epochs, seen), "");
  return seen;
}

template <class AnyDataset>
Batches all_of(const AnyDataset& dataset, const DataLoaderOptions& options, std::int64_t epochs) {
  Loader loader(dataset, options, 0, 1);
  return rest_of(loader, epochs);
}

Batches without(Batches batches, std::size_t place) {
  batches.erase(batches.begin() + static_cast<std::ptrdiff_t>(place));
  return batches;
}

class LoaderErrors : public testing::TestWithParam<int> {
 protected:
  DataLoaderOptions options() const { return {.batch_size = 4, .shuffle = true, .num_workers = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Workers, LoaderErrors, testing::Values(0, 3), testing::PrintToStringParamName());

TEST_P(LoaderErrors, TheNextLoopContinuesAtTheBatchThatFailed) {
  const Fragile dataset(22);
  const Batches expected = all_of(dataset, options(), 2);
  for (const std::int64_t bad : {0, 7, 13, 21}) {
    Loader loader(dataset, options(), 0, 1);
    dataset.spoil(bad);
    Batches seen;
    EXPECT_THAT(loop(loader, 2, seen), HasSubstr("torn sample"));
    const std::size_t before = seen.size();
    EXPECT_THAT(loop(loader, 2, seen), HasSubstr("torn sample")) << "the same batch is tried again";
    EXPECT_EQ(seen.size(), before);
    EXPECT_EQ(loader.state().consumed, static_cast<std::int64_t>(4 * before));
    EXPECT_EQ(loader.state().epoch, 0);
    dataset.mend();
    Loader resumed(dataset, options(), 0, 1);
    resumed.load_state(loader.state());
    EXPECT_EQ(rest_of(resumed, 2),
              Batches(expected.begin() + static_cast<std::ptrdiff_t>(before), expected.end()));
    EXPECT_EQ(loop(loader, 2, seen), "");
    EXPECT_EQ(seen, expected) << "sample " << bad;
    EXPECT_EQ(loader.state().epoch, 2);
  }
}

TEST_P(LoaderErrors, ABatchThatFailedCanBeSkipped) {
  const Fragile dataset(22);
  const Batches expected = all_of(dataset, options(), 1);
  for (const std::int64_t bad : {0, 7, 13, 21}) {
    dataset.spoil(bad);
    Loader loader(dataset, options(), 0, 1);
    Batches seen;
    EXPECT_THAT(loop(loader, 1, seen), HasSubstr("torn sample"));
    const std::size_t failed = seen.size();
    loader.skip_failed_batch();
    EXPECT_THROW(loader.skip_failed_batch(), std::logic_error) << "it is skipped already";
    EXPECT_EQ(loader.state().epoch, failed + 1 == expected.size() ? 1 : 0);
    EXPECT_EQ(loop(loader, 1, seen), "");
    EXPECT_EQ(seen, without(expected, failed)) << "sample " << bad;
  }
  Loader sound(dataset, options(), 0, 1);
  EXPECT_THAT(
      [&] { sound.skip_failed_batch(); },
      ThrowsMessage<std::logic_error>(HasSubstr("skip_failed_batch() must follow an error about one batch")));
}

TEST_P(LoaderErrors, AStreamContinuesAtTheBatchThatFailed) {
  const DataLoaderOptions streamed{.batch_size = 2, .num_workers = GetParam()};
  const FragileStream dataset(23);
  const Batches expected = all_of(dataset, streamed, 2);
  for (const std::int64_t bad : {0, 1, 9, 16, 22}) {
    for (const bool skipped : {false, true}) {
      Loader loader(dataset, streamed, 0, 1);
      dataset.samples().spoil(bad);
      Batches seen;
      EXPECT_THAT(loop(loader, 2, seen), HasSubstr("torn sample"));
      const std::size_t failed = seen.size();
      EXPECT_THAT(loop(loader, 2, seen), HasSubstr("torn sample"));
      EXPECT_EQ(seen.size(), failed);
      dataset.samples().mend();
      if (skipped) loader.skip_failed_batch();
      EXPECT_EQ(loop(loader, 2, seen), "");
      EXPECT_EQ(seen, skipped ? without(expected, failed) : expected) << "sample " << bad;
    }
  }
}

TEST_P(LoaderErrors, ConsumedSamplesNeedNotBeReadable) {
  const DataLoaderOptions streamed{.batch_size = 2, .num_workers = GetParam()};
  const FragileStream dataset(23);
  const Batches expected = all_of(dataset, streamed, 1);
  dataset.samples().spoil(9);
  Loader loader(dataset, streamed, 0, 1);
  Batches seen;
  EXPECT_NE(loop(loader, 1, seen), "");
  const std::size_t failed = seen.size();
  loader.skip_failed_batch();
  EXPECT_EQ(loop(loader, 1, seen), "");
  EXPECT_EQ(seen, without(expected, failed));
}

TEST(LoaderErrorsOfWorkers, OutOfOrderEachBatchStillComesOnce) {
  const DataLoaderOptions unordered{.batch_size = 4, .shuffle = true, .num_workers = 3, .in_order = false};
  const Fragile dataset(40);
  for (const bool skipped : {false, true}) {
    dataset.spoil(17);
    Loader loader(dataset, unordered, 0, 1);
    Batches seen;
    EXPECT_THAT(loop(loader, 2, seen), HasSubstr("torn sample"));
    dataset.mend();
    if (skipped) loader.skip_failed_batch();
    EXPECT_EQ(loop(loader, 2, seen), "");
    std::map<std::int64_t, int> times;
    for (const auto& batch : seen)
      for (const std::int64_t number : batch) ++times[number];
    EXPECT_EQ(seen.size(), skipped ? 19U : 20U);
    EXPECT_EQ(times.size(), 40U);
    EXPECT_EQ(times[17], skipped ? 1 : 2);
  }
}

TEST_P(LoaderErrors, ACollateFunctionMayFailToo) {
  const Fragile dataset(22);
  std::atomic<bool> fails = true;
  const auto collate = [&](const std::vector<std::int64_t>& samples) {
    if (fails && samples.front() == 8) throw std::runtime_error("does not fit");
    return at::tensor(samples);
  };
  Loader loader(dataset, {.batch_size = 4, .num_workers = GetParam()}, 0, 1, collate);
  Batches seen;
  EXPECT_THAT(loop(loader, 1, seen), HasSubstr("does not fit"));
  EXPECT_EQ(seen.size(), 2U);
  fails = false;
  EXPECT_EQ(loop(loader, 1, seen), "");
  EXPECT_EQ(seen, all_of(dataset, {.batch_size = 4}, 1));
}

TEST_P(LoaderErrors, AFailedOrderIsRequestedAgain) {
  struct FailingBatches : BatchSamplerBase {
    IndexBatches batches(std::int64_t epoch) const override {
      if (epoch == 1 && fails) throw std::runtime_error("no list of this epoch");
      return {.indices = {0, 1, 2, 3, 4, 5}, .offsets = {0, 4, 6}};
    }
    std::string description() const override { return "FailingBatches"; }
    mutable std::atomic<bool> fails = true;
  };
  const Fragile dataset(6);
  const auto batches = std::make_shared<FailingBatches>();
  Loader loader(dataset, {.batch_sampler = batches, .num_workers = GetParam()}, 0, 1);
  Batches seen;
  EXPECT_THAT(loop(loader, 3, seen), HasSubstr("no list of this epoch"));
  EXPECT_EQ(seen.size(), 2U);
  EXPECT_THROW(loader.skip_failed_batch(), std::logic_error) << "the failure was not about a batch";
  EXPECT_THAT(loop(loader, 3, seen), HasSubstr("no list of this epoch"));
  batches->fails = false;
  EXPECT_EQ(loop(loader, 3, seen), "");
  EXPECT_EQ(seen.size(), 6U);
}

TEST_P(LoaderErrors, APassContinuesWhereItFailed) {
  const Fragile dataset(22);
  const Batches expected = all_of(dataset, options(), 2);
  dataset.spoil(13);
  Loader loader(dataset, options(), 0, 1);
  Batches seen;
  const auto pass = [&] {
    for (auto& batch : loader) seen.push_back(entries_of(batch));
  };
  EXPECT_THROW(pass(), std::runtime_error);
  dataset.mend();
  pass();
  EXPECT_EQ(seen.size(), expected.size() / 2);
  pass();
  EXPECT_EQ(seen, expected);
}

TEST(LoaderErrorsOfWorkers, AWorkerThatCouldNotStartIsStartedAgain) {
  const Fragile dataset(22);
  std::atomic<bool> fails = true;
  Loader loader(dataset,
                {.batch_size = 4,
                 .num_workers = 2,
                 .worker_init_fn =
                     [&](int) {
                       if (fails) throw std::runtime_error("no licence");
                     }},
                0, 1);
  Batches seen;
  EXPECT_THAT(loop(loader, 1, seen), HasSubstr("no licence"));
  fails = false;
  EXPECT_EQ(loop(loader, 1, seen), "");
  EXPECT_EQ(seen, all_of(dataset, {.batch_size = 4}, 1));
}

// On a slow machine, a loop after a timeout may time out again; no batch is lost by it.
void finish(Loader& loader, std::int64_t epochs, Batches& seen) {
  std::string error;
  do error = loop(loader, epochs, seen);
  while (error.contains("gave no batch within"));
  EXPECT_EQ(error, "");
}

TEST(LoaderErrorsOfWorkers, AfterATimeoutNoBatchIsLost) {
  static const Fragile dataset(40);  // a worker that hangs may use it after the loader is gone
  const DataLoaderOptions untimed{.batch_size = 4, .num_workers = 3};
  DataLoaderOptions timed = untimed;
  timed.timeout = std::chrono::seconds(1);
  const Batches expected = all_of(dataset, {.batch_size = 4}, 2);
  Loader before(dataset, untimed, 0, 1);
  Batches seen;
  for (auto& batch : before.epochs(2)) {
    seen.push_back(entries_of(batch));
    if (seen.size() == 3) break;
  }
  dataset.hang(13);
  Loader loader(dataset, timed, 0, 1);
  loader.load_state(before.state());
  for (int time = 0; time < 2; ++time) {
    EXPECT_THAT(loop(loader, 2, seen),
                HasSubstr("gave no batch within 1 s: epoch 0, batch 3 (samples 12, 13"));
    EXPECT_EQ(seen.size(), 3U);
    EXPECT_EQ(loader.state().consumed, 12);
  }
  Loader skipping(dataset, timed, 0, 1);
  skipping.load_state(loader.state());
  Batches others;
  EXPECT_NE(loop(skipping, 1, others), "");
  skipping.skip_failed_batch();
  finish(skipping, 1, others);
  EXPECT_EQ(others, Batches(expected.begin() + 4, expected.begin() + 10));
  dataset.mend();
  finish(loader, 2, seen);
  EXPECT_EQ(seen, expected);
}

TEST(LoaderErrorsOfWorkers, AfterATimeoutNewReadersReadAStream) {
  static const FragileStream dataset(40);
  const DataLoaderOptions timed{.batch_size = 2, .num_workers = 3, .timeout = std::chrono::seconds(1)};
  DataLoaderOptions untimed = timed;
  untimed.timeout = {};
  const Batches expected = all_of(dataset, untimed, 2);
  dataset.samples().hang(13);
  Loader loader(dataset, timed, 0, 1);
  Batches seen;
  EXPECT_THAT(loop(loader, 2, seen), HasSubstr("gave no batch within 1 s"));
  EXPECT_THAT(loop(loader, 2, seen), HasSubstr("gave no batch within 1 s"));
  dataset.samples().mend();  // the detached workers continue too, and nobody takes their batches
  finish(loader, 2, seen);
  EXPECT_EQ(seen, expected);
}

TEST(LoaderErrorsOfWorkers, AnOrderThatHangsEndsTheLoopToo) {
  struct HangingOrder : Sampler {
    std::int64_t size() const override { return 8; }
    std::vector<std::int64_t> indices(std::int64_t /*epoch*/) const override {
      let_go.wait(false);
      return {0, 1, 2, 3, 4, 5, 6, 7};
    }
    std::string description() const override { return "HangingOrder"; }
    mutable std::atomic<bool> let_go = false;
  };
  static const Fragile dataset(8);
  const auto order = std::make_shared<HangingOrder>();
  Loader loader(dataset,
                {.batch_size = 4, .sampler = order, .num_workers = 2, .timeout = std::chrono::seconds(1)}, 0,
                1);
  Batches seen;
  EXPECT_THAT(loop(loader, 1, seen),
              HasSubstr("gave no batch within 1 s: epoch 0, batch 0 (its order is still being made)"));
  order->let_go = true;
  order->let_go.notify_all();
  finish(loader, 1, seen);
  EXPECT_EQ(seen, (Batches{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

// One worker hangs until the test releases it; then a sample of another worker fails.
struct Stuck : Dataset<std::int64_t> {
  std::int64_t size() const override { return 40; }
  std::int64_t get(std::int64_t index) const override {
    if (index == 9) {
      hangs = true;
      hangs.notify_all();
      mended.wait(false);
    }
    if (index == 5 && !mended) {
      hangs.wait(false);
      throw std::runtime_error("torn sample");
    }
    return index;
  }
  void mend() const {
    mended = true;
    mended.notify_all();
  }
  mutable std::atomic<bool> hangs = false;
  mutable std::atomic<bool> mended = false;
};

TEST(LoaderErrorsOfWorkers, AnErrorIsReportedWhileAnotherWorkerHangs) {
  const Stuck dataset;
  Loader loader(dataset, {.batch_size = 4, .num_workers = 3}, 0, 1);
  Batches seen;
  EXPECT_THAT(loop(loader, 2, seen), HasSubstr("torn sample"));
  EXPECT_EQ(seen.size(), 1U);
  EXPECT_EQ(loader.state().consumed, 4);
  dataset.mend();
  EXPECT_EQ(loop(loader, 2, seen), "");
  EXPECT_EQ(seen, all_of(dataset, {.batch_size = 4}, 2));
}

TEST(LoaderErrorsOfWorkers, ADestructorWaitsForAHangingWorkerOnlyUntilTheTimeout) {
  static const Stuck dataset;  // the worker uses it after the loader is gone
  {
    Loader loader(dataset, {.batch_size = 4, .num_workers = 3, .timeout = std::chrono::seconds(1)}, 0, 1);
    Batches seen;
    EXPECT_NE(loop(loader, 2, seen), "");
  }
  dataset.mend();
}

// Copies to the host instead of a device, and fails at one copy.
class FailingCopier : public DeviceCopier {
 public:
  explicit FailingCopier(int fails_at) : fails_at_(fails_at) {}
  at::Tensor copy(const at::Tensor& tensor) override {
    if (copies_++ == fails_at_) throw std::runtime_error("out of memory");
    return tensor + 1000;
  }
  void ready(const std::vector<at::Tensor>& copies) override {
    for (const at::Tensor& copy : copies) EXPECT_GE(copy.min().item<std::int64_t>(), 1000);
    if (fails_at_ == -1 - ready_++) throw std::runtime_error("the device is lost");
  }

 private:
  int fails_at_;  // the number of the copy that fails; if negative, -1 - n is the number of the call of
                  // ready()
  int copies_ = 0;
  int ready_ = 0;
};

TEST_P(LoaderErrors, AFailedCopyToTheDeviceIsRetriedAndTheBatchBeforeItIsKept) {
  using Pair = std::pair<std::int64_t, std::int64_t>;
  struct Pairs : Dataset<Pair> {
    std::int64_t size() const override { return 14; }
    Pair get(std::int64_t index) const override { return {index, index}; }
  };
  const Pairs dataset;
  using PairBatch = std::pair<at::Tensor, at::Tensor>;
  constexpr int kBatches = 2 * 4;
  for (int fails_at = -kBatches; fails_at < 2 * kBatches; ++fails_at) {
    detail::LoaderEngine engine(std::make_unique<detail::TypedSource<Pair, PairBatch>>(dataset, nullptr),
                                {.batch_size = 4, .num_workers = GetParam()}, 0, 1,
                                std::make_shared<FailingCopier>(fails_at));
    std::vector<std::int64_t> seen;
    int errors = 0;
    const std::uint64_t loop = engine.begin_loop();
    for (bool over = false; !over;) {
      try {
        const auto* batch = static_cast<PairBatch*>(engine.next(2, loop));
        over = batch == nullptr;
        if (over) break;
        EXPECT_TRUE(batch->first.equal(batch->second)) << "both are copied, each once";
        for (const std::int64_t number : entries_of(batch->first)) seen.push_back(number - 1000);
      } catch (const std::runtime_error&) {
        ++errors;
        EXPECT_EQ(engine.state().epoch * 14 + engine.state().consumed, std::ssize(seen));
      }
    }
    EXPECT_EQ(errors, 1) << fails_at;
    ASSERT_EQ(seen.size(), 28U) << fails_at;
    for (std::size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], static_cast<std::int64_t>(i % 14));
  }
}

}  // namespace
}  // namespace muster
