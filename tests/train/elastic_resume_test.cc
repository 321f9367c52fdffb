// A training is killed in the middle of an epoch and resumes with another number of ranks. Every sample is
// used once an epoch, and the parameters end where an undisturbed run's do: bit for bit with the same number
// of ranks.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <sstream>

#include "tests/scratch_directory.h"
#include "tests/train/training.h"

namespace muster {
namespace {

// 9 steps an epoch, none of them divisible by 2, 3 or 4; the last step has fewer samples than ranks.
constexpr std::int64_t kSamples = 202;
constexpr std::int64_t kGlobalBatch = 25;
constexpr std::int64_t kEpochs = 2;

// Random numbers that each sample draws for itself.
class AugmentedDataset : public NoiseDataset {
 public:
  using NoiseDataset::NoiseDataset;
  Example get(std::int64_t index) const override {
    Example example = NoiseDataset::get(index);
    if (sample_random().chance(0.5)) example.data = example.data.flip(0);
    example.data = example.data + sample_random().uniform(-0.5, 0.5);
    return example;
  }
};

// A stream of the same samples: 200 of them, which 4 ranks with 2 workers each share evenly.
constexpr std::int64_t kStreamed = 200;
class NoiseStream : public IterableDataset<> {
 public:
  explicit NoiseStream(const Dataset<>& samples) : samples_(samples) {}
  std::unique_ptr<Reader> open(const Shard& shard) const override {
    return std::make_unique<Reading>(samples_, shard);
  }

 private:
  struct Reading : Reader {
    Reading(const Dataset<>& all, const Shard& part) : samples(all), index(part.index), step(part.count) {}
    std::optional<Example> next() override {
      if (index >= kStreamed) return std::nullopt;
      return samples.get(std::exchange(index, index + step));
    }
    const Dataset<>& samples;
    std::int64_t index, step;
  };
  const Dataset<>& samples_;
};

// No batch norm: it would depend on how a batch is divided.
struct PlainNet : torch::nn::Module {
  torch::nn::Sequential layers;
  explicit PlainNet(double dropout) {
    layers = register_module(
        "layers",
        torch::nn::Sequential(torch::nn::Linear(12, 37), torch::nn::Tanh(), torch::nn::Linear(37, 61),
                              torch::nn::Dropout(dropout), torch::nn::ReLU(), torch::nn::Linear(61, 29),
                              torch::nn::Tanh(), torch::nn::Linear(29, 5)));
  }
  torch::Tensor forward(const torch::Tensor& x) { return layers->forward(x); }
};

struct Kind {
  bool augmented = true;
  bool is_double = false;
  double dropout = 0;
  bool weighted = true;
  bool streamed = false;
  std::int64_t shards = 0;      // of a stream
  std::int64_t batch_size = 0;  // per rank; 0: kGlobalBatch over all ranks
};

// An attempt: starts from the newest checkpoint and runs to the end or until a rank is killed.
struct Start {
  int ranks = 4;
  int workers = 0;
  std::int64_t killed_after = 0;  // this step; 0: never
};

void train(Job& job, const Kind& kind, const Start& attempt, const std::string& directory,
           std::size_t number) {
  torch::manual_seed(7 + static_cast<std::uint64_t>(job.rank()));
  const NoiseDataset plain(kSamples);
  const AugmentedDataset augmented(kSamples);
  PlainNet net(kind.dropout);
  const auto type = kind.is_double ? torch::kDouble : torch::kFloat;
  net.to(type);
  auto model = DistributedDataParallel(net, job, {.bucket_cap_mb = 0.004});
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const Dataset<>& samples = kind.augmented ? augmented : plain;
  const NoiseStream stream(samples);
  const bool per_rank = kind.batch_size > 0;
  auto loader =
      kind.streamed
          ? DataLoader<>(stream,
                         {.batch_size = 5, .num_workers = attempt.workers, .seed = 3, .shards = kind.shards},
                         job)
          : DataLoader<>(samples,
                         {.batch_size = per_rank ? kind.batch_size : 1,
                          .shuffle = true,
                          .num_workers = attempt.workers,
                          .seed = 3,
                          .global_batch_size = per_rank ? 0 : kGlobalBatch},
                         job);
  Checkpointer checkpoints(job, {.every = 3, .directory = directory + "/checkpoints"});
  auto state = TrainState(model, optimizer, loader);
  std::ofstream ledger(fmt::format("{}/ledger.{}.{}", directory, number, job.rank()));
  ledger << checkpoints.restore(state) << std::endl;
  for (auto& batch : loader.epochs(kEpochs)) {
    optimizer.zero_grad();
    const auto loss = torch::nn::functional::cross_entropy(model(batch.data.to(type)), batch.target);
    (kind.weighted ? loss * loader.info().weight : loss).backward();
    optimizer.step();
    checkpoints.step(state);
    ledger << checkpoints.steps() << ' ' << loader.epoch();
    const auto& indices = loader.info().indices;
    for (std::int64_t i = 0; i < std::ssize(indices) - loader.info().padding_count; ++i)
      ledger << ' ' << indices[static_cast<std::size_t>(i)];
    ledger << std::endl;
    if (checkpoints.steps() != attempt.killed_after) continue;
    checkpoints.wait();
    if (job.rank() == 1 % job.world_size()) std::raise(SIGKILL);
  }
  if (!checkpoints.save(state)) throw std::runtime_error("the last save failed");
  if (job.rank() == 0) write_bytes(directory + "/result", bytes_of(*model.module()));
}

class ElasticResume : public testing::Test {
 protected:
  // The parameters at the end of the last attempt. All earlier attempts are killed.
  std::string result_of(const Kind& kind, const std::vector<Start>& attempts) {
    directory_ = scratch_ / std::to_string(++trainings_);
    std::filesystem::create_directories(directory_);
    for (std::size_t number = 0; number < attempts.size(); ++number) {
      const Start& attempt = attempts[number];
      const auto all = [&] {
        spawn([&](Job& job) { train(job, kind, attempt, directory_, number); }, attempt.ranks);
      };
      if (attempt.killed_after == 0) {
        all();
        continue;
      }
      try {
        all();
        ADD_FAILURE() << "attempt " << number << " was not killed";
      } catch (const SpawnError& error) {
        EXPECT_EQ(error.signal(), SIGKILL) << error.what();
      }
    }
    return read_bytes(directory_ + "/result");
  }

  // How often each sample of each epoch was used in the history of the checkpoints: each attempt counts up to
  // the step from which the next one resumed.
  using Uses = std::map<std::pair<std::int64_t, std::int64_t>, int>;
  Uses uses(const std::vector<Start>& attempts) const {
    Uses uses;
    std::int64_t until = std::numeric_limits<std::int64_t>::max();
    for (std::size_t number = attempts.size(); number-- > 0;) {
      std::int64_t resumed = 0;
      for (int rank = 0; rank < attempts[number].ranks; ++rank) {
        std::ifstream ledger(fmt::format("{}/ledger.{}.{}", directory_, number, rank));
        ledger >> resumed;
        for (std::string line; std::getline(ledger, line);) {
          std::istringstream words(line);
          std::int64_t step = 0, epoch = 0;
          words >> step >> epoch;
          for (std::int64_t index = 0; step <= until && words >> index;) ++uses[{epoch, index}];
        }
      }
      EXPECT_EQ(resumed, number == 0 ? 0 : attempts[number - 1].killed_after / 3 * 3) << "attempt " << number;
      until = resumed;
    }
    return uses;
  }

  ScratchDirectory scratch_;
  std::string directory_;  // of the latest training
  int trainings_ = 0;
};

template <class Number>
double largest_difference(const std::string& left, const std::string& right) {
  if (left.size() != right.size() || left.empty()) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); i += sizeof(Number)) {
    Number a = 0, b = 0;
    std::memcpy(&a, &left[i], sizeof a);
    std::memcpy(&b, &right[i], sizeof b);
    largest = std::max(largest, std::abs(static_cast<double>(a - b)));
  }
  return largest;
}

double difference(const Kind& kind, const std::string& left, const std::string& right) {
  return kind.is_double ? largest_difference<double>(left, right) : largest_difference<float>(left, right);
}

class AnyNumberOfRanks : public ElasticResume, public testing::WithParamInterface<Kind> {};

TEST_P(AnyNumberOfRanks, UsesEverySampleOnceAnEpochAndEndsWhereAnUndisturbedRunEnds) {
  const Kind& kind = GetParam();
  const std::vector<Start> undisturbed{{.ranks = 4}};
  const std::string expected = result_of(kind, undisturbed);
  const auto once_each = uses(undisturbed);
  EXPECT_EQ(once_each.size(), static_cast<std::size_t>(kEpochs * kSamples));
  EXPECT_TRUE(std::ranges::all_of(once_each, [](const auto& use) { return use.second == 1; }));
  for (const auto& attempts : std::vector<std::vector<Start>>{
           {{.ranks = 4, .workers = 2, .killed_after = 4}, {.ranks = 2, .killed_after = 8}, {.ranks = 3}},
           {{.ranks = 4, .killed_after = 5}, {.ranks = 1, .workers = 1, .killed_after = 13}, {.ranks = 3}}}) {
    const std::string resumed = result_of(kind, attempts);
    EXPECT_EQ(uses(attempts), once_each);
    const double off = difference(kind, resumed, expected);
    EXPECT_LE(off, kind.is_double ? 1e-12 : 1e-5);
    RecordProperty(fmt::format("difference_{}", attempts[1].ranks), fmt::format("{:.1e}", off));
  }
}

INSTANTIATE_TEST_SUITE_P(Of, AnyNumberOfRanks,
                         testing::Values(Kind{.augmented = false}, Kind{}, Kind{.is_double = true}),
                         [](const auto& info) {
                           return std::string(info.param.is_double ? "Doubles" : "Floats") +
                                  (info.param.augmented ? "Augmented" : "");
                         });

// With a batch size per rank, the rest of an epoch is divided anew: at samples 42 and 126, where no batch of
// 4 or 3 ranks begins, and at 63 and 105.
TEST_F(ElasticResume, ABatchSizePerRankAlsoUsesEverySampleOnceAnEpoch) {
  const Kind kind{.batch_size = 7};
  const std::vector<Start> undisturbed{{.ranks = 3}};
  ASSERT_FALSE(result_of(kind, undisturbed).empty());
  const auto once_each = uses(undisturbed);
  for (const auto& attempts : std::vector<std::vector<Start>>{
           {{.ranks = 2, .workers = 2, .killed_after = 4}, {.ranks = 4, .killed_after = 8}, {.ranks = 3}},
           {{.ranks = 3, .killed_after = 4}, {.ranks = 2, .killed_after = 8}, {.ranks = 4, .workers = 1}}}) {
    EXPECT_FALSE(result_of(kind, attempts).empty());
    EXPECT_EQ(uses(attempts), once_each);
  }
}

// Ranks have shares of different sizes: without weights the mean is wrong.
TEST_F(ElasticResume, EndsElsewhereWithoutTheWeights) {
  const Kind kind{.weighted = false};
  const std::string four = result_of(kind, {{.ranks = 4}});
  EXPECT_GT(difference(kind, result_of(kind, {{.ranks = 3}}), four), 1e-4);
}

TEST_F(ElasticResume, EndsBitForBitWithEqualRanksAndAnyNumberOfWorkers) {
  for (const bool augmented : {false, true}) {
    const Kind kind{.augmented = augmented, .dropout = 0.2};
    const std::string expected = result_of(kind, {{.ranks = 4}});
    ASSERT_FALSE(expected.empty());
    for (const int workers : {0, 4}) {
      SCOPED_TRACE(workers);
      const std::vector<Start> attempts{{.workers = workers, .killed_after = 4},
                                        {.workers = workers, .killed_after = 14},
                                        {.workers = workers}};
      EXPECT_TRUE(result_of(kind, attempts) == expected);
      const auto used = uses(attempts);
      EXPECT_EQ(used.size(), static_cast<std::size_t>(kEpochs * kSamples));
      EXPECT_TRUE(std::ranges::all_of(used, [](const auto& use) { return use.second == 1; }));
    }
    EXPECT_TRUE(result_of(kind, {{.workers = 4, .killed_after = 7}, {.workers = 0}}) == expected);
  }
}

// An iterable dataset has one place per shard, and one shard per worker.
TEST_F(ElasticResume, AStreamResumesBitForBitWithEqualRanks) {
  for (const int workers : {0, 2}) {
    SCOPED_TRACE(workers);
    const Kind kind{.dropout = 0.2, .streamed = true};
    const std::string expected = result_of(kind, {{.workers = workers}});
    ASSERT_FALSE(expected.empty());
    const std::vector<Start> attempts{{.workers = workers, .killed_after = 4},
                                      {.workers = workers, .killed_after = 14},
                                      {.workers = workers}};
    EXPECT_TRUE(result_of(kind, attempts) == expected);
    const auto used = uses(attempts);
    EXPECT_EQ(used.size(), static_cast<std::size_t>(kEpochs * kStreamed));
    EXPECT_TRUE(std::ranges::all_of(used, [](const auto& use) { return use.second == 1; }));
  }
}

// With 12 shards the stream has 48 batches an epoch for 2, 3, 4 and 6 ranks alike.
TEST_F(ElasticResume, AStreamWithFixedShardsResumesWithAnyNumberOfRanks) {
  const Kind kind{.streamed = true, .shards = 12};
  const std::vector<Start> undisturbed{{.ranks = 4}};
  ASSERT_FALSE(result_of(kind, undisturbed).empty());
  const auto once_each = uses(undisturbed);
  EXPECT_EQ(once_each.size(), static_cast<std::size_t>(kEpochs * kStreamed));
  const std::vector<Start> attempts{{.ranks = 4, .workers = 2, .killed_after = 10},
                                    {.ranks = 2, .workers = 1, .killed_after = 17},
                                    {.ranks = 3}};
  EXPECT_FALSE(result_of(kind, attempts).empty());
  EXPECT_EQ(uses(attempts), once_each);
}

TEST_F(ElasticResume, AStreamWithAShardPerWorkerDoesNotResumeOnOtherRanks) {
  const Kind kind{.streamed = true};
  try {
    result_of(kind, {{.killed_after = 4}, {.ranks = 2}});
    ADD_FAILURE() << "2 ranks have resumed";
  } catch (const SpawnError& error) {
    EXPECT_NE(std::string(error.what()).find("it was saved with 4 shards, and the stream now has 2"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace muster
