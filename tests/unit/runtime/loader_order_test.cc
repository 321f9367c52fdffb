// The order in which a loader goes through epochs, when its orders are made, and the random numbers that
// samples draw.
#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <latch>
#include <map>
#include <muster/data/batch_sampler.h>
#include <muster/data/sampler.h>
#include <muster/data/subset.h>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <torch/torch.h>

#include "tests/unit/runtime/loader_numbers.h"
#include "tests/warnings.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// A dataset whose samples draw random numbers.
class Augmented : public Numbers {
 public:
  using Numbers::Numbers;
  Example get(std::int64_t index) const override {
    Example example = Numbers::get(index);
    example.data += sample_random().uniform();
    return example;
  }
};

TEST(DataLoader, ASamplesRandomNumbersDependOnlyOnEpochAndPlace) {
  const Augmented dataset(10);
  const auto draws = [&](int workers, std::int64_t batch_size) {
    std::map<std::pair<std::int64_t, std::int64_t>, double> drawn;
    DataLoaderOptions options{.batch_size = batch_size, .shuffle = true, .num_workers = workers, .seed = 5};
    DataLoader loader(dataset, options, 0, 1);
    for (auto& batch : loader.epochs(2)) {
      for (std::int64_t i = 0; i < batch.target.numel(); ++i)
        drawn[{loader.epoch(), batch.target[i].item<std::int64_t>()}] = batch.data[i][0].item<double>();
    }
    return drawn;
  };
  const auto expected = draws(0, 3);
  EXPECT_NE(expected.at({0, 4}), expected.at({1, 4}));
  EXPECT_EQ(draws(2, 3), expected);
  EXPECT_EQ(draws(3, 5), expected);
}

// A sample that comes twice is augmented twice. The rank or worker that reads it makes no difference.
TEST(DataLoader, ASampleThatComesTwiceInAnEpochDrawsTwice) {
  const Augmented dataset(10);
  const auto often = std::make_shared<WeightedRandomSampler>(std::vector<double>{1, 0, 1}, 24);
  // The numbers that each place of the order draws, in order.
  const auto draws = [&](int ranks, int workers, bool subset) {
    const Subset part(dataset, {0, 1, 2});
    const Dataset<>& from = subset ? static_cast<const Dataset<>&>(part) : dataset;
    std::vector<double> drawn;
    std::vector<std::vector<double>> of_batches(4);
    for (int rank = 0; rank < ranks; ++rank) {
      DataLoader loader(from, {.sampler = often, .num_workers = workers, .seed = 5, .global_batch_size = 6},
                        rank, ranks);
      for (auto& batch : loader.epochs(1)) {
        auto& all = of_batches[static_cast<std::size_t>(loader.batch())];
        for (std::int64_t i = 0; i < batch.target.numel(); ++i)
          all.push_back(batch.data[i][0].item<double>() - batch.target[i].item<double>());
      }
    }
    for (const auto& all : of_batches) drawn.insert(drawn.end(), all.begin(), all.end());
    return drawn;
  };
  const auto expected = draws(1, 0, false);
  ASSERT_EQ(expected.size(), 24U);
  EXPECT_EQ(std::set(expected.begin(), expected.end()).size(), 24U);
  EXPECT_EQ(draws(1, 3, false), expected);
  EXPECT_EQ(draws(2, 0, false), expected);
  EXPECT_EQ(draws(3, 2, true), expected);
}

TEST(DataLoader, ASampleMadeOfOthersDrawsTheSameInAnyBatch) {
  // Its samples are batches of another dataset.
  class Groups : public Dataset<> {
   public:
    explicit Groups(const Dataset<>& of) : of_(of) {}
    std::int64_t size() const override { return 6; }
    Example get(std::int64_t /*index*/) const override {
      return of_.get_batch(std::vector<std::int64_t>{0, 1});
    }

   private:
    const Dataset<>& of_;
  };
  const Augmented dataset(10);
  const Groups groups(dataset);
  const auto draws = [&](std::int64_t batch_size) {
    DataLoader loader(groups, {.batch_size = batch_size}, 0, 1);
    std::vector<at::Tensor> all;
    for (auto& batch : loader.epochs(1)) all.push_back(batch.data.clone());
    return at::cat(all);
  };
  const at::Tensor expected = draws(1);
  EXPECT_TRUE(draws(4).equal(expected));
  EXPECT_EQ(std::get<0>(at::_unique(expected.select(2, 0))).numel(), 12) << "all of them differ";
}

TEST(DataLoader, IfASampleComesTwiceOnlyItsFailedOccurrenceIsSkipped) {
  struct OnceBad : Numbers {
    using Numbers::Numbers;
    Example get(std::int64_t index) const override {
      if (index == 2 && !failed_.exchange(true)) throw std::runtime_error("torn image");
      return Numbers::get(index);
    }
    mutable std::atomic<bool> failed_ = false;
  };
  const OnceBad dataset(4);
  const auto twice = std::make_shared<WeightedRandomSampler>(std::vector<double>{0, 0, 1, 0}, 3);
  DataLoader loader(dataset, {.batch_size = 3, .sampler = twice, .bad_sample = BadSample::kSkip}, 0, 1);
  for (auto& batch : loader.epochs(1)) {
    EXPECT_EQ(numbers(batch), (std::vector<std::int64_t>{2, 2}));
    EXPECT_EQ(loader.info().indices, (std::vector<std::int64_t>{2, 2}));
    EXPECT_EQ(loader.info().skipped, std::vector<std::int64_t>{2});
    EXPECT_EQ(loader.info().mask().numel(), 2);
  }
}

Batches pass(DataLoader<Example>& loader, std::size_t most = 1000) {
  Batches seen;
  for (auto& batch : loader) {
    seen.push_back(numbers(batch));
    if (seen.size() == most) break;
  }
  return seen;
}

TEST(DataLoader, ALoopOverTheLoaderIsOneEpochFromItsStart) {
  const Numbers dataset(22);
  for (const int workers : {0, 2}) {
    for (const bool persistent : {false, true}) {
      const DataLoaderOptions options{.batch_size = 4,
                                      .shuffle = true,
                                      .num_workers = workers,
                                      .persistent_workers = persistent && workers > 0};
      DataLoader whole(dataset, options, 0, 1);
      const Batches all = rest(whole, 4);
      const auto of_epoch = [&](std::ptrdiff_t epoch, std::ptrdiff_t from = 0) {
        return Batches(all.begin() + epoch * 6 + from, all.begin() + epoch * 6 + 6);
      };
      DataLoader loader(dataset, options, 0, 1);
      EXPECT_EQ(loader.epoch(), 0);
      EXPECT_EQ(pass(loader), of_epoch(0));
      EXPECT_EQ(loader.epoch(), 1) << "the next epoch";
      EXPECT_EQ(pass(loader, 2), Batches(all.begin() + 6, all.begin() + 8));
      EXPECT_EQ(loader.epoch(), 1) << "the epoch of the last batch";
      const DataLoaderState left = loader.state();
      EXPECT_EQ(pass(loader), of_epoch(2)) << "a loop that was left is not continued";
      EXPECT_EQ(rest(loader, 4), of_epoch(3));
      EXPECT_EQ(pass(loader).size(), 6U);
      loader.load_state(left);
      EXPECT_EQ(loader.epoch(), 1);
      EXPECT_EQ(pass(loader), of_epoch(1, 2)) << "but with a state";
      EXPECT_EQ(pass(loader), of_epoch(2));
      EXPECT_EQ(loader.epoch(), 3);
    }
  }
}

TEST(DataLoader, OutOfOrderALoopLeftBeforeTheFirstBatchIsNotContinuedEither) {
  struct FirstIsSlow : Numbers {
    using Numbers::Numbers;
    Example get(std::int64_t index) const override {
      if (index == 0) let_go.wait(false);
      return Numbers::get(index);
    }
    mutable std::atomic<bool> let_go = false;
  };
  const FirstIsSlow dataset(12);
  DataLoader loader(dataset, {.batch_size = 2, .num_workers = 2, .in_order = false}, 0, 1);
  for (auto& batch : loader) {
    EXPECT_EQ(loader.epoch(), 0);
    EXPECT_NE(numbers(batch).front(), 0);
    break;
  }
  dataset.let_go = true;
  dataset.let_go.notify_all();
  EXPECT_EQ(pass(loader).size(), 6U);
  EXPECT_EQ(loader.epoch(), 2) << "the next epoch";
}

TEST(DataLoader, ALoopInsideALoopOverTheSameLoaderIsAnError) {
  const Numbers dataset(10);
  for (const int workers : {0, 2}) {
    DataLoader loader(dataset, {.batch_size = 4, .num_workers = workers}, 0, 1);
    int outer = 0;
    try {
      for ([[maybe_unused]] auto& batch : loader.epochs(2)) {
        ++outer;
        EXPECT_GT(pass(loader).size(), 0U);
      }
      ADD_FAILURE() << "the outer loop continued at another place";
    } catch (const std::logic_error& error) {
      EXPECT_THAT(error.what(), HasSubstr("give the inner loop its own loader"));
    }
    EXPECT_EQ(outer, 1);
    DataLoader left(dataset, {.batch_size = 4, .num_workers = workers}, 0, 1);
    for ([[maybe_unused]] auto& batch : left.epochs(2)) break;
    EXPECT_GT(rest(left, 2).size(), 0U) << "a loop that was left has ended";
  }
}

TEST(DataLoader, EvaluationsAreEqualAndAnEmptyLoopSaysWhatToWrite) {
  const Numbers dataset(10);
  const Warnings warnings;
  for (const int workers : {0, 2}) {
    DataLoader loader(dataset, {.batch_size = 4, .num_workers = workers}, 0, 1);
    const Batches all = pass(loader);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(pass(loader), all);
    EXPECT_EQ(pass(loader, 1).size(), 1U);
    EXPECT_EQ(pass(loader), all) << "from the start, although the loop before was left";
  }
  EXPECT_THAT(warnings.lines(), testing::IsEmpty());
  DataLoader loader(dataset, {.batch_size = 4}, 0, 1);
  EXPECT_EQ(rest(loader, 0).size(), 0U) << "no epochs were requested";
  EXPECT_THAT([&] { rest(loader, -1); },
              testing::ThrowsMessage<std::invalid_argument>("DataLoader: epochs(-1) must be at least 0"));
  EXPECT_EQ(rest(loader, 1).size(), 3U);
  EXPECT_THAT(warnings.lines(), testing::IsEmpty());
  EXPECT_EQ(rest(loader, 1).size(), 0U);
  EXPECT_EQ(rest(loader, 1).size(), 0U) << "said once";
  EXPECT_THAT(warnings.lines(),
              testing::ElementsAre(testing::AllOf(HasSubstr("epochs(1) has no batch: it ends before epoch 1"),
                                                  HasSubstr("is at epoch 1 already; for one more pass"),
                                                  HasSubstr("write `for (auto& batch : loader)`"))));
}

// A run that is resumed at its end has nothing left to do.
TEST(DataLoader, AfterLoadingAStateAnEmptyLoopOverEpochsSaysThatNothingIsLeft) {
  const Numbers dataset(10);
  DataLoader first(dataset, {.batch_size = 4}, 0, 1);
  rest(first, 2);
  const Warnings warnings;
  DataLoader second(dataset, {.batch_size = 4}, 0, 1);
  second.load_state(first.state());
  EXPECT_EQ(rest(second, 2).size(), 0U);
  EXPECT_EQ(rest(second, 2).size(), 0U) << "said once";
  EXPECT_THAT(warnings.lines(),
              testing::ElementsAre(HasSubstr("nothing is left to train: "
                                             "the loaded state is already at the end of epochs(2)")));
}

// Ranks that take a few batches of an epoch before another number of ranks continues. The last ones take the
// rest.
struct Crew {
  int ranks;
  std::int64_t batch_size;
  int batches = 0;  // per rank; 0: all that are left
};

std::multiset<std::int64_t> taken_by(const Numbers& dataset, const std::vector<Crew>& crews) {
  std::multiset<std::int64_t> seen;
  std::optional<DataLoaderState> state;
  for (const auto& [ranks, batch_size, batches] : crews) {
    std::optional<DataLoaderState> next;
    for (int rank = 0; rank < ranks; ++rank) {
      DataLoader part(dataset, {.batch_size = batch_size, .shuffle = true}, rank, ranks);
      if (state) part.load_state(*state);
      int taken = 0;
      for (auto& batch : part.epochs(1)) {
        EXPECT_LT(part.batch(), part.batches_per_epoch());
        const at::Tensor real = batch.target.masked_select(part.info().mask());
        for (const std::int64_t number : numbers({batch.data, real})) seen.insert(number);
        if (++taken == batches) break;
      }
      if (!next) next = part.state();
      EXPECT_EQ(part.state().consumed, next->consumed) << "all ranks are at the same place";
    }
    state = next;
  }
  EXPECT_EQ(state->epoch, 1);
  return seen;
}

TEST(DataLoader, ResumesAtTheSamePlaceWithAnotherWorldSizeOrBatchSize) {
  const std::vector<std::vector<Crew>> histories{
      {{4, 4, 3}, {3, 8}},                          // resumes at sample 48, where a new batch would begin
      {{4, 4, 3}, {3, 5}},                          // resumes within a new batch
      {{4, 4, 1}, {3, 5, 2}, {2, 7, 3}, {5, 2}},    // 16, 46, 88
      {{2, 7, 1}, {3, 4, 1}, {3, 4, 2}, {1, 100}},  // resumes twice with the same ranks
  };
  for (const std::int64_t size : {96, 101, 103}) {
    const Numbers dataset(size);
    for (const auto& crews : histories) {
      const Warnings warnings;
      const auto seen = taken_by(dataset, crews);
      EXPECT_EQ(seen.size(), static_cast<std::size_t>(size)) << crews[1].ranks;
      EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), seen.size()) << "each once";
    }
  }
}

TEST(DataLoader, SaysInOneLineThatRanksOrBatchSizeHaveChanged) {
  const Numbers dataset(96);
  const auto said = [&](const DataLoaderState& state, const DataLoaderOptions& options, int ranks) {
    const Warnings warnings;
    for (int rank = 0; rank < ranks; ++rank) DataLoader(dataset, options, rank, ranks).load_state(state);
    return warnings.lines();
  };
  DataLoaderState state = DataLoader(dataset, {.batch_size = 8}, 0, 2).state();
  EXPECT_THAT(said(state, {.batch_size = 8}, 2), testing::IsEmpty());
  EXPECT_THAT(said(state, {.batch_size = 12}, 2),
              testing::ElementsAre(AllOf(
                  HasSubstr("saved with 2 ranks x 8, now 2 x 12: epoch 0 continues at sample 0, each sample"),
                  testing::Not(HasSubstr("global_batch_size")))));
  state.consumed = 16;
  EXPECT_THAT(said(state, {.batch_size = 8}, 3),
              testing::ElementsAre(AllOf(
                  HasSubstr("saved with 2 ranks x 8, now 3 x 8: epoch 0 continues at sample 16, each sample"),
                  HasSubstr("with .global_batch_size = 16 instead of .batch_size"))));
  state.ranks = 0;  // an older checkpoint's
  EXPECT_THAT(said(state, {.batch_size = 8}, 3), testing::IsEmpty());
  state = DataLoader(dataset, {.global_batch_size = 12}, 0, 2).state();
  state.consumed = 12;
  EXPECT_THAT(said(state, {.global_batch_size = 12}, 3),
              testing::ElementsAre(
                  HasSubstr("saved with a global batch of 12 on 2 ranks, now a global batch of 12 on 3: "
                            "epoch 0 continues at sample 12, each sample still once")));
}

TEST(DataLoader, BeforeALoopItReportsTheNextEpoch) {
  struct Growing : BatchSamplerBase {
    IndexBatches batches(std::int64_t epoch) const override {
      return epoch == 0 ? IndexBatches{{0, 1, 2, 3}, {0, 4}} : IndexBatches{{0, 1, 2, 3}, {0, 2, 4}};
    }
    std::string description() const override { return "Growing"; }
  };
  const Numbers dataset(4);
  DataLoader loader(dataset, {.batch_sampler = std::make_shared<Growing>()}, 0, 1);
  EXPECT_EQ(loader.batches_per_epoch(), 1);
  DataLoaderState state = loader.state();
  state.epoch = 3;
  loader.load_state(state);
  EXPECT_EQ(loader.epoch(), 3);
  EXPECT_EQ(loader.batches_per_epoch(), 2);
}

// Records which orders were made, and which threads made them.
struct Watched : Sampler {
  std::int64_t size() const override { return 24; }
  std::vector<std::int64_t> indices(std::int64_t epoch) const override {
    const std::lock_guard lock(mutex);
    made.emplace_back(epoch, std::this_thread::get_id());
    if (epoch == held) {
      is_held.count_down();
      let_go.wait();
    }
    std::vector<std::int64_t> order(24);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
    return order;
  }
  std::string description() const override { return "Watched"; }
  std::vector<std::int64_t> epochs() const {
    const std::lock_guard lock(mutex);
    std::vector<std::int64_t> all;
    for (const auto& [epoch, thread] : made) all.push_back(epoch);
    return all;
  }
  std::int64_t held = -1;
  mutable std::latch is_held{1};
  mutable std::latch let_go{1};
  mutable std::mutex mutex;
  mutable std::vector<std::pair<std::int64_t, std::thread::id>> made;
};

TEST(DataLoader, ResumingMakesOnlyTheOrderOfItsEpoch) {
  const Numbers dataset(24);
  for (const std::int64_t consumed : {0, 8}) {
    const auto watched = std::make_shared<Watched>();
    DataLoader loader(dataset, {.batch_size = 4, .sampler = watched}, 0, 1);
    DataLoaderState state = loader.state();
    state.epoch = 7;
    state.consumed = consumed;
    loader.check_state(state);
    loader.load_state(state);
    EXPECT_EQ(loader.batches_per_epoch(), 6);
    EXPECT_EQ(rest(loader, 8).size(), consumed == 0 ? 6U : 4U);
    EXPECT_THAT(watched->epochs(), testing::ElementsAre(7));
  }
}

TEST(DataLoader, ASeparateThreadMakesTheNextOrderAhead) {
  const Numbers dataset(24);
  for (const int workers : {0, 2}) {
    for (const bool by_passes : {false, true}) {
      const auto watched = std::make_shared<Watched>();
      {
        DataLoader loader(dataset, {.batch_size = 4, .sampler = watched, .num_workers = workers}, 0, 1);
        if (by_passes)
          pass(loader), pass(loader), pass(loader);
        else
          rest(loader, 3);
      }
      std::map<std::int64_t, std::set<std::thread::id>> by;
      for (const auto& [epoch, thread] : watched->made) by[epoch].insert(thread);
      EXPECT_EQ(watched->made.size(), by_passes ? 4U : 3U) << "each once";
      EXPECT_FALSE(by[1].contains(std::this_thread::get_id()));
      EXPECT_FALSE(by[2].contains(std::this_thread::get_id()));
    }
  }
}

// The loop gets all batches of an epoch while the next epoch's order is still being made.
TEST(DataLoader, TheLoopDoesNotWaitForTheNextOrderWhileThereAreBatches) {
  const Numbers dataset(24);
  for (const int workers : {0, 1, 3}) {
    const auto watched = std::make_shared<Watched>();
    watched->held = 1;
    DataLoader loader(dataset, {.batch_size = 4, .sampler = watched, .num_workers = workers}, 0, 1);
    std::int64_t taken = 0;
    for ([[maybe_unused]] auto& batch : loader.epochs(2)) {
      if (++taken == 1) watched->is_held.wait();
      if (taken == 6) watched->let_go.count_down();
    }
    EXPECT_EQ(taken, 12);
  }
}

TEST(DataLoader, AComputedOrderNeedsNoMemoryAndNoPreparation) {
  struct Huge : Dataset<std::int64_t> {
    std::int64_t size() const override { return std::int64_t{1} << 50; }  // a list of it is 9 PB
    std::int64_t get(std::int64_t index) const override { return index; }
  };
  const Huge dataset;
  const auto order = std::make_shared<KeyedRandomSampler>(dataset.size(), 3);
  for (const bool global : {false, true}) {
    const DataLoaderOptions options{.batch_size = global ? 1 : 4,
                                    .sampler = order,
                                    .num_workers = 2,
                                    .global_batch_size = global ? 8 : 0};
    std::vector<std::int64_t> taken(8);
    DataLoaderState state;
    for (const int rank : {0, 1}) {
      DataLoader loader(dataset, options, rank, 2);
      state = loader.state();
      state.consumed = std::int64_t{8} << 40;
      loader.load_state(state);
      for (auto& batch : loader.epochs(1)) {
        EXPECT_EQ(batch.numel(), 4);
        for (std::int64_t i = 0; i < 4; ++i)
          taken[static_cast<std::size_t>(global ? rank * 4 + i : rank + 2 * i)] =
              batch[i].item<std::int64_t>();
        break;
      }
      EXPECT_EQ(loader.state().consumed, state.consumed + 8);
    }
    for (std::int64_t i = 0; i < 8; ++i)
      EXPECT_EQ(taken[static_cast<std::size_t>(i)], order->index(0, state.consumed + i));
  }
}

TEST(DataLoader, ADistributedSamplerAsSamplerIsUsedUnchanged) {
  const Numbers dataset(22);
  for (const int rank : {0, 1, 2}) {
    DataLoader plain(dataset, {.batch_size = 4, .shuffle = true, .seed = 3}, rank, 3);
    const auto part = std::make_shared<DistributedSampler>(22, 3, rank, DistributedSamplerOptions{.seed = 3});
    DataLoader given(dataset, {.batch_size = 4, .sampler = part}, rank, 3);
    EXPECT_EQ(rest(given, 2), rest(plain, 2));
    EXPECT_EQ(given.state().order, plain.state().order) << "a run may go on with either";
    const auto keeping = std::make_shared<DistributedSampler>(std::make_shared<SequentialSampler>(22), 3,
                                                              rank, UnevenRanks::kKeep);
    DataLoader kept(dataset, {.batch_size = 4, .sampler = keeping}, rank, 3);
    DataLoader keeps(dataset, {.batch_size = 4, .uneven_ranks = UnevenRanks::kKeep}, rank, 3);
    EXPECT_EQ(rest(kept, 1), rest(keeps, 1));
  }
  const auto refuses = [&](const DataLoaderOptions& options, const std::string& reason) {
    EXPECT_THAT([&] { DataLoader(dataset, options, 0, 3); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(reason)));
  };
  const auto part = std::make_shared<DistributedSampler>(22, 3, 1);
  refuses({.sampler = part}, "is the part of rank 1 of 3, and the loader is for rank 0 of 3");
  const auto mine = std::make_shared<DistributedSampler>(22, 3, 0);
  refuses({.sampler = mine, .uneven_ranks = UnevenRanks::kKeep}, "uneven_ranks and a DistributedSampler");
  refuses({.sampler = mine, .global_batch_size = 3}, "global_batch_size and a DistributedSampler");
}

}  // namespace
}  // namespace muster
