// Checkpoints that other ranks, other slices or other programs load than those that saved them.
#include <fmt/ranges.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/checkpoint/saved_optimizer.h>

#include "common/checkpoint/directory.h"
#include "common/wire/digest.h"
#include "tests/require.h"
#include "tests/train/checkpoint_fixture.h"
#include "tests/warnings.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class CheckpointReshardTest : public CheckpointTest {};

// A tensor; each rank holds a slice of it along one dimension.
struct Sliced : StatePart {
  Sliced(std::vector<std::int64_t> a_shape, std::int64_t dimension, int rank, int ranks)
      : shape(std::move(a_shape)), offsets(shape.size(), 0) {
    const auto d = static_cast<std::size_t>(dimension);
    const std::int64_t begin = shape[d] * rank / ranks;
    std::vector<std::int64_t> sizes = shape;
    sizes[d] = shape[d] * (rank + 1) / ranks - begin;
    offsets[d] = begin;
    tensor = at::zeros(sizes);
  }
  // The content that a filled slice should have.
  at::Tensor expected() const {
    at::Tensor all = at::arange(at::zeros(shape).numel(), at::kFloat).view(shape);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const auto dimension = static_cast<std::int64_t>(d);
      all = all.narrow(dimension, offsets[d], tensor.size(dimension));
    }
    return all;
  }
  void save(SavedState& to) override { to.slice("whole", tensor, {shape, offsets}); }
  void check(LoadedState& from) override { from.fill("whole", tensor, {shape, offsets}); }
  std::vector<std::int64_t> shape, offsets;
  at::Tensor tensor;
};

void run_sliced(const std::string& directory, int ranks, std::int64_t dimension, bool saves) {
  spawn(
      [&](Job& job) {
        auto part =
            std::make_unique<Sliced>(std::vector<std::int64_t>{12, 10, 7}, dimension, job.rank(), ranks);
        Sliced& sliced = *part;
        TrainState state;
        state.add("sliced", std::move(part));
        Checkpointer checkpoints(job, {.directory = directory, .read_only = !saves});
        if (saves) {
          sliced.tensor.copy_(sliced.expected());
          require(checkpoints.save(state), "a save of slices");
        } else {
          checkpoints.restore(state);
          require(sliced.tensor.equal(sliced.expected()),
                  fmt::format("slices along {} on {}", dimension, ranks));
        }
      },
      ranks);
}

// On several ranks that communicate.
class CheckpointReshardOnRanks : public CheckpointReshardTest {};

TEST_F(CheckpointReshardOnRanks, LoadsSlicesAlongAnyDimensionIntoOtherSlices) {
  for (const std::int64_t dimension : {0, 1, 2}) {
    const std::string directory = scratch_ / std::to_string(dimension);
    run_sliced(directory, 4, dimension, /*saves=*/true);
    for (const auto& [ranks, along] : {std::pair(1, 0), std::pair(2, 2), std::pair(3, 1), std::pair(8, 0)})
      EXPECT_NO_THROW(run_sliced(directory, ranks, along, /*saves=*/false)) << dimension;
  }
}

// Each rank has the same state, as under DistributedDataParallel.
struct SameTraining {
  SameTraining(Job& a_job, const std::string& directory, bool read_only)
      : job(a_job), checkpoints(job, {.every = 1000, .directory = directory, .read_only = read_only}) {}
  void train(int steps) {
    for (auto& batch : loader.epochs(100)) {
      train_one(net, optimizer, batch);
      if (!checkpoints_read_only) checkpoints.step(state);
      if (--steps == 0) return;
    }
  }
  Job job;
  NoiseDataset dataset{64};
  SmallNet net;
  torch::optim::Adam optimizer{net.parameters(), torch::optim::AdamOptions(1e-2).weight_decay(0.1)};
  DataLoader<Example> loader{dataset, {.batch_size = 8}, 0, 1};
  Checkpointer checkpoints;
  bool checkpoints_read_only = false;
  TrainState state{net, optimizer, loader};
};

TEST_F(CheckpointReshardOnRanks, OneTwoThreeAndEightRanksContinueFromACheckpointOfFour) {
  const auto run = [&](int ranks, bool saves, const std::string& result) {
    spawn(
        [&](Job& job) {
          torch::manual_seed(1);
          SameTraining training(job, directory_, !saves);
          if (saves) {
            training.train(3);
            require(training.checkpoints.save(training.state), "a save of four ranks");
          } else {
            training.optimizer.param_groups()[0].options().set_lr(0.5);
            require(training.checkpoints.restore(training.state) == 3, "a restore");
            training.checkpoints_read_only = true;
          }
          torch::manual_seed(5);  // ranks beyond the checkpoint's have generators of their own
          training.train(3);
          write_bytes(scratch_ / result + std::to_string(job.rank()), bytes_of(training.net));
        },
        ranks);
  };
  run(4, true, "expected");
  const std::string expected = read_bytes(scratch_ / "expected0");
  for (const int ranks : {1, 2, 3, 8}) {
    run(ranks, false, "loaded");
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(read_bytes(scratch_ / "loaded" + std::to_string(rank)), expected) << rank << " of " << ranks;
  }
  const auto manifest = CheckpointDirectory(directory_).read_manifest({.step = 3, .attempt = Attempt(1)});
  ASSERT_TRUE(manifest) << manifest.error().message();
  std::set<std::uint32_t> files;
  for (const auto& [name, tensor] : manifest->shared.tensors) {
    EXPECT_EQ(tensor.parts.size(), 1U) << name;
    files.insert(tensor.parts.front().file);
  }
  EXPECT_EQ(files.size(), 4U) << "all ranks share the writing";
}

struct Layer : torch::nn::Module {
  explicit Layer(double value) { weight = register_parameter("weight", at::full({3, 2}, value)); }
  at::Tensor weight;
};

// Pipeline stages: parts of a model on different ranks, each stage on two.
TEST_F(CheckpointReshardOnRanks, PartsOnDifferentRanksAreWrittenOnceAndOneRankCanLoadAll) {
  spawn(
      [&](Job& job) {
        const int stage = job.rank() / 2;
        Layer layer(stage + 1);
        torch::optim::SGD optimizer({layer.weight}, torch::optim::SGDOptions(0.1).momentum(0.9));
        layer.weight.mutable_grad() = at::full({3, 2}, stage + 1.0);
        optimizer.step();
        TrainState state;
        state.add(fmt::format("stage{}", stage), layer);
        state.add("optimizer", optimizer);
        Checkpointer checkpoints(job, {.directory = directory_});
        require(checkpoints.save(state), "a save of stages");
      },
      4);
  const auto manifest = CheckpointDirectory(directory_).read_manifest({.step = 0, .attempt = Attempt(1)});
  ASSERT_TRUE(manifest) << manifest.error().message();
  std::vector<std::string> names;
  for (const auto& [name, tensor] : manifest->shared.tensors) {
    names.push_back(name);
    EXPECT_EQ(tensor.parts.size(), 1U) << name;
  }
  EXPECT_THAT(names, ElementsAre("module.stage0.weight", "module.stage1.weight",
                                 "optimizers.optimizer.stage0.weight.momentum_buffer",
                                 "optimizers.optimizer.stage1.weight.momentum_buffer"));
  const Job job = make_job();
  Layer first(0), second(0);
  torch::optim::SGD optimizer({first.weight, second.weight}, torch::optim::SGDOptions(0.1).momentum(0.9));
  TrainState state;
  state.add("stage0", first);
  state.add("stage1", second);
  state.add("optimizer", optimizer);
  Checkpointer checkpoints(job, {.directory = directory_, .read_only = true});
  checkpoints.restore(state);
  EXPECT_TRUE(first.weight.allclose(at::full({3, 2}, 0.9)));
  EXPECT_TRUE(second.weight.allclose(at::full({3, 2}, 1.8)));
  EXPECT_EQ(optimizer.state().size(), 2U);
}

TEST_F(CheckpointReshardOnRanks, PartsThatDifferThoughSharedAreNamedAndNotCommitted) {
  for (const bool check : {true, false}) {
    const std::string directory = scratch_ / (check ? "checked" : "unchecked");
    spawn(
        [&](Job& job) {
          SameTraining training(job, scratch_ / "none", /*read_only=*/true);
          const at::NoGradGuard no_grad;
          if (job.rank() == 2) training.net.linear2->bias[3] += 1;
          Checkpointer checkpoints(job, {.directory = directory, .check_replicas = check});
          require(checkpoints.save(training.state) == !check, "a save of ranks that differ");
        },
        3);
    EXPECT_EQ(fs::exists(directory + "/step-0.attempt-1/manifest.json"), !check);
  }
}

TEST_F(CheckpointReshardOnRanks, ALearningRateThatDiffersIsNotCommitted) {
  spawn(
      [&](Job& job) {
        SameTraining training(job, directory_, /*read_only=*/false);
        if (job.rank() == 1) training.optimizer.param_groups()[0].options().set_lr(0.7);
        require(!training.checkpoints.save(training.state), "a save of two learning rates");
      },
      2);
}

// Memory beyond the state that loading may take.
#if defined(__has_feature) && __has_feature(thread_sanitizer)
constexpr int kLimitKib = 256 << 10;  // the sanitizer keeps notes about each byte
#else
constexpr int kLimitKib = 64 << 10;
#endif

long long kib_of_status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name)) return std::atoll(line.c_str() + name.size());
  return 0;
}

// The bytes that all threads of this process have read, from any file.
double bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string name;
  double bytes = 0;
  file >> name >> bytes;
  require(name == "rchar:", "the kernel counts what is read");
  return bytes;
}

// The ranks of a node share the reading of large tensors; without that, each would read all of them.
TEST_F(CheckpointReshardOnRanks, RanksOfANodeLoadALargeStateTogetherAndAllNameATornFile) {
  constexpr std::int64_t kElements = 8'000'000;
  const auto restore_it = [&](Job& job, const std::function<void(Checkpointer&, TrainState&)>& restore) {
    std::vector<at::Tensor> large;
    TrainState state;
    for (int i = 0; i < 4; ++i) {
      large.push_back(at::full({kElements}, -1.0F));
      state.add(fmt::format("large{}", i), large.back());
    }
    Checkpointer checkpoints(job, {.directory = directory_, .read_only = true});
    restore(checkpoints, state);
    return large;
  };
  spawn(
      [&](Job& job) {
        {
          std::vector<at::Tensor> large;
          TrainState state;
          for (int i = 0; i < 4; ++i) {
            large.push_back(at::arange(i, i + kElements, at::kFloat));
            state.add(fmt::format("large{}", i), large.back());
          }
          Checkpointer checkpoints(job, {.directory = directory_});
          require(checkpoints.save(state), "a save of two ranks");
        }
        const auto large = restore_it(job, [&](Checkpointer& checkpoints, TrainState& state) {
          std::ofstream("/proc/self/clear_refs") << "5";
          const auto before = kib_of_status("VmRSS:");
          const double read_before = bytes_read();
          checkpoints.restore(state);
          const double read = all_reduce(job, bytes_read() - read_before, ReduceOp::kSum);
          require(kib_of_status("VmHWM:") - before < kLimitKib, "little memory beyond the state");
          constexpr double kStateBytes = 4.0 * kElements * sizeof(float);
          require(read > kStateBytes && read < 1.25 * kStateBytes,
                  fmt::format("the ranks have read {} bytes of a state of {}", read, kStateBytes));
        });
        for (int i = 0; i < 4; ++i)
          require(large[static_cast<std::size_t>(i)].equal(at::arange(i, i + kElements, at::kFloat)),
                  "equal tensors");
        job.barrier();
        if (job.rank() == 0) {
          std::fstream file(directory_ + "/step-0.attempt-1/rank-00000.safetensors",
                            std::ios::binary | std::ios::in | std::ios::out);
          file.seekp(20'000'000);
          file << "torn";
        }
        job.barrier();
        (void)restore_it(job, [&](Checkpointer& checkpoints, TrainState& state) {
          std::string why;
          try {
            checkpoints.restore(state);
          } catch (const std::runtime_error& error) {
            why = error.what();
          }
          require(why.find("rank-00000.safetensors: "
                           "its bytes 16777216 to 20971520 are not those that were written; "
                           "they belong to tensor user.large") != std::string::npos,
                  why);
        });
      },
      2);
}

TEST_F(CheckpointReshardTest, SavesAStateLargerThanTheStagingInPiecesAndLoadsItInLittleMemory) {
  constexpr std::int64_t kElements = 50'000'000;  // 200 MB
  const Job job = make_job();
  at::Tensor large = at::arange(kElements, at::kFloat);
  const at::Tensor expected = large.clone();
  double odd = 0.5;  // shifts the tensors to an odd offset
  {
    TrainState state;
    state.add("large", large);
    state.add("odd", odd);
    Checkpointer checkpoints(job, {.directory = directory_, .staging_bytes = 1});
    const Warnings warnings;
    ASSERT_TRUE(checkpoints.save(state));
    EXPECT_THAT(fmt::to_string(fmt::join(warnings.lines(), "")),
                HasSubstr("is larger than .staging_bytes, 8 MiB"));
  }
  large.zero_();
  TrainState state;
  state.add("large", large);
  Checkpointer checkpoints(job, {.directory = directory_, .read_only = true});
  std::ofstream("/proc/self/clear_refs") << "5";
  const auto before = kib_of_status("VmRSS:");
  checkpoints.restore(state);
  EXPECT_LT(kib_of_status("VmHWM:") - before, kLimitKib);
  EXPECT_TRUE(large.equal(expected));
}

TEST_F(CheckpointReshardTest, AllowedPartialLoadsNameTheRestsOfBothSides) {
  const Job job = make_job();
  at::Tensor both = at::ones({3});
  at::Tensor old = at::ones({2});
  {
    TrainState state;
    state.add("both", both);
    state.add("old", old);
    Checkpointer checkpoints(job, {.directory = directory_});
    ASSERT_TRUE(checkpoints.save(state));
  }
  at::Tensor fresh = at::full({4}, 7.0);
  std::string note = "mine";
  both.zero_();
  TrainState state;
  state.add("both", both);
  state.add("fresh", fresh);
  state.add("note", note);
  Checkpointer checkpoints(job, {.directory = directory_, .read_only = true});
  EXPECT_THAT([&] { checkpoints.restore(state); },
              ThrowsMessage<std::runtime_error>(
                  HasSubstr("it has no user.fresh; to keep the program's values of what it lacks, "
                            "use restore(state, {.strict = false})")));
  const Warnings warnings;
  checkpoints.restore(state, {.strict = false});
  EXPECT_TRUE(both.equal(at::ones({3})));
  EXPECT_TRUE(fresh.equal(at::full({4}, 7.0)));
  EXPECT_EQ(note, "mine");
  EXPECT_THAT(fmt::to_string(fmt::join(warnings.lines(), "")),
              AllOf(HasSubstr("user.fresh"), HasSubstr("user.note"),
                    HasSubstr("which the program does not ask for: user.old")));
}

TEST_F(CheckpointReshardTest, RenamesAndConvertsTypesIfAsked) {
  const Job job = make_job();
  Layer saved(3);
  {
    TrainState state;
    state.add("backbone", saved);
    Checkpointer checkpoints(job, {.directory = directory_});
    ASSERT_TRUE(checkpoints.save(state));
  }
  Layer loaded(0);
  loaded.to(at::kDouble);
  TrainState state;
  state.add("encoder", loaded);
  Checkpointer checkpoints(job, {.directory = directory_, .read_only = true});
  const RestoreOptions renamed{.rename = {{"module.encoder.", "module.backbone."}}};
  EXPECT_THAT([&] { checkpoints.restore(state, renamed); },
              ThrowsMessage<std::runtime_error>(HasSubstr("of the type Float, not Double")));
  checkpoints.restore(state, {.convert = true, .rename = renamed.rename});
  EXPECT_TRUE(loaded.named_parameters()["weight"].equal(at::full({3, 2}, 3.0, at::kDouble)));
  Layer again(0);
  EXPECT_EQ(load_model(again, directory_, {.name = "backbone"}).step, 0);
  EXPECT_TRUE(again.weight.equal(at::full({3, 2}, 3.0)));
}

// A gradient scaler that a program might define.
struct Scaler {
  double scale = 1;
  at::Tensor history = at::zeros({2});
  void save(SavedState& to) const {
    to.value_of_first("scale", write_number(scale));
    to.of_first("history", history);
  }
  void load(LoadedState& from) {
    scale = from.number<double>("scale");
    from.fill("history", history);
  }
};

// An optimizer that keeps the sum of all gradients and describes its own state.
class Summing : public torch::optim::SGD, public SavedOptimizer {
 public:
  explicit Summing(std::vector<at::Tensor> parameters)
      : SGD(std::move(parameters), torch::optim::SGDOptions(1)) {}
  std::string saved_kind() const override { return "Summing"; }
  std::map<std::string, std::string> saved_options(std::size_t) const override { return {{"rate", rate}}; }
  void load_options(std::size_t, const std::map<std::string, std::string>& options) override {
    rate = options.at("rate");
  }
  State saved_state(const at::Tensor& parameter) const override {
    const auto found = sums.find(parameter.unsafeGetTensorImpl());
    if (found == sums.end()) return {};
    return {.tensors = {{"sum", {.tensor = found->second}}}, .counts = {{"count", count}}};
  }
  State new_state(const at::Tensor& parameter) const override {
    return {.tensors = {{"sum", {.tensor = at::zeros_like(parameter)}}}, .counts = {{"count", 0}}};
  }
  void load_state(const at::Tensor& parameter, State state) override {
    sums[parameter.unsafeGetTensorImpl()] = state.tensors.at("sum").tensor;
    count = state.counts.at("count");
  }
  std::map<void*, at::Tensor> sums;
  std::string rate = "1";
  std::int64_t count = 0;
};

TEST_F(CheckpointReshardTest, SeveralModelsOptimizersLoadersAndOwnTypesAreOneState) {
  struct Adversaries {
    NoiseDataset dataset{32};
    Layer generator{1}, critic{2};
    torch::optim::LBFGS lbfgs{{generator.weight}, torch::optim::LBFGSOptions(0.1).history_size(5)};
    Summing summing{{critic.weight}};
    DataLoader<Example> real{dataset, {.batch_size = 4}, 0, 1}, noise{dataset, {.batch_size = 8}, 0, 1};
    Scaler scaler;
    TrainState state;
    Adversaries() {
      state.add("generator", generator);
      state.add("critic", critic);
      state.add("of_generator", lbfgs);
      state.add("of_critic", summing);
      state.add("real", real);
      state.add("noise", noise);
      state.add("scaler", scaler);
    }
    void step() {
      lbfgs.step([&] {
        lbfgs.zero_grad();
        at::Tensor loss = (generator.weight - at::arange(6).view({3, 2})).pow(4).sum();
        loss.backward();
        return loss;
      });
    }
  };
  const Job job = make_job();
  Adversaries saved;
  saved.step();
  saved.summing.sums[saved.critic.weight.unsafeGetTensorImpl()] = at::full({3, 2}, 9.0);
  saved.summing.count = 4;
  saved.summing.rate = "0.25";
  saved.scaler = {.scale = 65536, .history = at::ones({2})};
  for (auto& batch : saved.noise) {
    (void)batch;
    break;
  }
  Checkpointer checkpoints(job, {.directory = directory_});
  ASSERT_TRUE(checkpoints.save(saved.state));
  Adversaries loaded;
  Checkpointer reader(job, {.directory = directory_, .read_only = true});
  reader.restore(loaded.state);
  EXPECT_EQ(loaded.noise.state().consumed, saved.noise.state().consumed);
  EXPECT_EQ(loaded.real.state().consumed, 0);
  EXPECT_EQ(loaded.scaler.scale, 65536);
  EXPECT_TRUE(loaded.scaler.history.equal(at::ones({2})));
  EXPECT_EQ(loaded.summing.count, 4);
  EXPECT_EQ(loaded.summing.rate, "0.25");
  EXPECT_TRUE(loaded.summing.sums.begin()->second.equal(at::full({3, 2}, 9.0)));
  saved.step();
  loaded.step();
  EXPECT_TRUE(loaded.generator.weight.equal(saved.generator.weight));
}

TEST_F(CheckpointReshardTest, AllOptionsOfAnOptimizerComeBack) {
  const auto make = [](double decay) {
    return [decay](std::vector<at::Tensor> p) {
      return std::make_unique<torch::optim::AdamW>(
          std::move(p), torch::optim::AdamWOptions(1e-2).weight_decay(decay).betas({0.8, 0.95}));
    };
  };
  Training saving(directory_, make(0.25));
  saving.train(1);
  ASSERT_TRUE(saving.checkpoints.save(saving.state));
  Training loading(directory_, make(0.5), {.read_only = true});
  loading.checkpoints.restore(loading.state);
  const auto& options =
      static_cast<torch::optim::AdamWOptions&>(loading.optimizer->param_groups()[0].options());
  EXPECT_EQ(options.weight_decay(), 0.25);
  EXPECT_EQ(std::get<1>(options.betas()), 0.95);
}

TEST_F(CheckpointReshardTest, AnOptimizerDerivedFromTorchsIsADifferentKind) {
  struct Derived : torch::optim::SGD {
    using SGD::SGD;
  };
  SmallNet net;
  Derived optimizer(net.parameters(), torch::optim::SGDOptions(0.1));
  const NoiseDataset dataset(8);
  DataLoader<Example> loader(dataset, {}, 0, 1);
  EXPECT_THAT([&] { const TrainState state(net, optimizer, loader); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("muster::SavedOptimizer")));
}

// The files are as earlier versions of Muster wrote them.
TEST_F(CheckpointReshardTest, LoadsCheckpointsOfEveryEarlierFormat) {
  const std::map<std::string, std::vector<float>> biases{
      {"format_1",
       {-0.07920751720666885F, 0.1539248526096344F, -0.15302126109600067F, 0.0900055319070816F,
        0.011077883653342724F}},
      {"format_2",
       {-0.10262362658977509F, 0.16465277969837189F, 0.058512907475233078F, -0.048708859831094742F,
        0.045986469835042953F}}};
  for (const auto& [format, expected] : biases) {
    SCOPED_TRACE(format);
    const std::string directory = scratch_ / format;
    fs::copy(fs::path(MUSTER_GOLDEN_CHECKPOINTS) / format, directory, fs::copy_options::recursive);
    Training training(directory, make_adam, {.read_only = true});
    EXPECT_EQ(training.checkpoints.restore(training.state), 2);
    EXPECT_EQ(training.best, 0.2);
    EXPECT_EQ(training.patience, 2);
    const at::Tensor& bias = training.net->linear4->bias;
    EXPECT_THAT(std::vector<float>(bias.data_ptr<float>(), bias.data_ptr<float>() + bias.numel()),
                testing::ElementsAreArray(expected));
    EXPECT_EQ(load_model(*training.net, directory).step, 2);
  }
}

// An older checkpoint lies next to it, but a version that cannot read the newest must not fall back to it.
TEST_F(CheckpointReshardTest, RefusesANewerFormatWithAdviceAndLosesNothing) {
  save_two();
  const std::string body = R"({"format":3,"written":"otherwise"})";
  write_bytes(directory_ + "/step-2.attempt-1/manifest.json",
              fmt::format(R"({{"body":{},"xxh3":"{}"}})", body, xxh3_digest(body)));
  const auto refused = testing::ThrowsMessage<std::runtime_error>(
      HasSubstr("it has format 3, and this version of Muster reads up to 2: use the version that wrote it"));
  EXPECT_THAT([&] { const Training training(directory_); }, refused);
  EXPECT_FALSE(fs::exists(directory_ + "/attempts/000002.claim"));
  Training reader(directory_, make_adam, {.read_only = true});
  EXPECT_THAT([&] { reader.checkpoints.restore(reader.state); }, refused);
  EXPECT_THAT([&] { load_model(*reader.net, directory_); }, refused);
  EXPECT_EQ(load_model(*reader.net, directory_, {.step = 1}).step, 1) << "the step that the caller named";
}

}  // namespace
}  // namespace muster
